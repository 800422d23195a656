"""`transformula evaluate`: a trained model's scores."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..errors import InputError
from .options import Given, Parser
from .output import as_json
from .verbs import WITH

WHAT = """\
Score a trained model on the data that its run held out. A language model is scored on the whole validation set, in nats
per token, perplexity and bits per byte, beside n-gram baselines. A model that writes targets is scored on the test set
(default: the validation set), with confidence intervals, signatures, trivial baselines, and the best and the worst
examples. --data scores other data; the baselines still learn from the run's training set. The options depend on the
run's task: transformula evaluate RUN --help lists them."""

EXAMPLES = [
    "transformula evaluate runs/demo",
    "transformula evaluate runs/demo --data other.txt --json",
    "transformula evaluate runs/translator --data 'test.{de,en}' --beam 5 --output written.en",
    "transformula evaluate runs/translator --help",
]


def make_parser(arguments: Sequence[str]) -> Parser:
    """Its options; those of the task come once the run is known, which says the task."""
    from ..api.evaluation import evaluation_settings, task_of
    from ..api.reading import import_packages

    parser = Parser("evaluate", WHAT, EXAMPLES, "RUN")
    parser.add_argument("--data", action="append", metavar="VALUE", help="score this data instead; may be repeated")
    parser.add_argument("--with", action="append", metavar="RUN", default=[], dest="others", help=WITH)
    parser.add_argument("--output", metavar="FILE", help="write the model's outputs there, one per line")
    parser.add_machine()
    import_packages(parser.begin(arguments).use)
    named = [argument for argument in parser.rest if not argument.startswith("-")]  # RUN, and values of further options
    run = next(iter([*filter(os.path.isdir, named), *named]), None)
    parser.add_argument("run", metavar="RUN", help="a run's folder (its best model) or a model's")
    settings = evaluation_settings(task_of(run))
    parser.add_settings("scoring", settings, without=("data", "validation", "tokenizer", "n_best"))
    return parser


def run(given: Given) -> int:
    """Evaluate one model."""
    (settings,) = given.parser.settings
    chosen = {key: value for key, value in given.of(settings).items() if key != "data"}

    from ..api.evaluation import evaluate
    from ..data.working import counting
    from ..generation.settings import SearchSettings
    from .output import check_output, line_of, write_output

    check_output(given["output"])
    if given["output"] is not None and not issubclass(settings, SearchSettings):
        raise InputError("--output: this task's evaluation writes no texts; leave it out")
    with counting("scoring") as progress:
        found = evaluate(
            given["run"],
            data=given["data"],
            models=given["others"],
            device=given["device"],
            threads=given["threads"],
            use=given["use"],
            verify=given["verify"],
            progress=progress,
            **chosen,
        )
    if given["output"] is not None and found.written is not None:
        write_output(given["output"], [line_of(text) for text in found.written])
    print(as_json(found.data) if given["json"] else found)
    return 0
