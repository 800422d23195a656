"""`transformula evaluate`: a trained model's scores."""

from __future__ import annotations

import os

from ..errors import InputError
from .options import RUN, Given, Parser
from .output import check_output, line_of, write_output

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


def make_parser(*arguments: str) -> Parser:
    """Its options; those of the task come once the run is known, which says the task."""
    from ..api.evaluation import task_of
    from ..api.reading import import_packages, of_task

    parser = Parser("evaluate", WHAT, EXAMPLES, "RUN")
    parser.add_argument("--data", action="append", metavar="VALUE", help="score this data instead; may be repeated")
    parser.add_with()
    parser.add("--output", "FILE", "write the model's outputs there, one per line")
    parser.add_machine()
    import_packages(parser.begin(arguments).use)
    named = [argument for argument in parser.rest if not argument.startswith("-")]  # RUN, and values of further options
    run = next(iter([*filter(os.path.isdir, named), *named]), None)
    parser.add("run", "RUN", RUN)
    settings = of_task(task_of(run), "evaluation")
    parser.add_settings("scoring", settings, without=("data", "validation", "tokenizer", "n_best"))
    return parser


def run(given: Given) -> int:
    from ..api.evaluation import evaluate
    from ..data.working import counting
    from ..generation.settings import SearchSettings

    (settings,) = given.parser.settings
    check_output(given["output"])
    if given["output"] is not None and not issubclass(settings, SearchSettings):
        raise InputError("--output: this task's evaluation writes no texts; leave it out")
    typed = {key: value for key, value in given.of(settings).items() if key != "data"}
    typed |= {key: given[key] for key in ("data", "device", "threads", "use", "verify")}
    with counting("scoring") as progress:
        report = evaluate(given["run"], models=given["others"], progress=progress, **typed)
    if given["output"] is not None and report.written is not None:
        write_output(given["output"], [line_of(text) for text in report.written])
    return given.show(report)
