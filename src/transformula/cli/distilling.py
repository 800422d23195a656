"""The verb by which a trained model writes what another one learns: distill."""

from __future__ import annotations

import os

from .options import RUN, Given, Parser, machine, verb


def distill_options(parser: Parser) -> None:
    """Its options; those of the search come once the teacher is known."""
    from ..api.inputs import predictor_in
    from ..api.reading import import_packages, model_folder

    what = "write for the sources of this data instead of the training rows of its run; may be repeated"
    parser.add("--data", "VALUE", what, action="append")
    parser.add("--rows", "N", "write so many rows, evenly over all (default: all)", type=int)
    what = "of a language model: tokens of each training document with which it goes on (default: 16)"
    parser.add("--prompt-tokens", "N", what, type=int)
    machine(parser)
    begun = parser.begin()
    import_packages(begun.use)
    named = [argument for argument in parser.rest if not argument.startswith("-")]  # RUN, and values of further options
    run = next(iter([*filter(os.path.isdir, named), *named]), None)
    parser.add("run", "RUN", RUN)
    parser.add("--out", "FILE", "the file of rows that is written, .jsonl", required=True)
    predictor = None if run is None else predictor_in(model_folder(run))
    if predictor is not None and predictor.method in ("write", "generate"):
        parser.add_settings("writing", predictor.settings, without=("n_best",))


@verb(
    "let a trained model write the data that another one learns from",
    "RUN",
    distill_options,
    examples=[
        "transformula distill runs/translator --out distilled.jsonl --beam 5",
        "transformula distill runs/translator --data monolingual.de --out distilled.jsonl",
        "transformula distill runs/lm --out distilled.jsonl --rows 1000 --max-tokens 200",
    ],
)
def distill(given: Given) -> int:
    """Write what a teacher says for the inputs of training, as rows that train --data reads: sequence-level
    distillation. A model that writes targets (translation, summaries, captions) writes one for each source, a language
    model goes on with the first tokens of each document. The student may have any tokenizer; with the teacher's own,
    train --teacher RUN learns its probabilities. Beside the file, FILE.provenance.json says which model wrote it, from
    which data, and how. A command that was stopped goes on where it was when it is given again. Train with the
    validation set of the labels: its own targets are the teacher's."""
    from ..api.distilling import distill
    from ..data.preview import counting

    with counting("writing") as progress:
        made = given.call(distill, progress=progress)
    return given.show(made)
