"""The verb about which of several models is better: compare."""

from __future__ import annotations

import argparse
import shlex

from ..errors import InputError, Interrupted, setting
from .options import QUIET, USE, Given, Parser, verb


def add_task(parser: Parser) -> str:
    """Add the options that say what models learn; returns the name of the task."""
    from ..api.reading import TASK
    from ..api.starting import task_named

    what = f"what the models learn: a task that --help all lists (default: {TASK});"
    what += " beside it --help all shows the options of this task"
    parser.add("--task", "NAME", what, basic=True, default=argparse.SUPPRESS)
    QUIET(parser)
    USE(parser)
    begun = parser.begin()
    return task_named(getattr(begun, "task", None), None, None, None, begun.use)


def compare_options(parser: Parser) -> None:
    """Its options; those of the task come once the task is known."""
    from ..comparison.settings import ComparisonSettings
    from ..comparison.study import study_names
    from ..training.settings import UNPAIRED

    task = add_task(parser)
    what = "a formula, a model file, a name of the gallery, each also as NAME: FORMULA; the first one is the base"
    parser.add("variants", "VARIANT", what, nargs="*")
    what = "the wirings that a search has found, or else its finalists, beside its base, in the place of variants"
    parser.add("--from", "FOLDER", what, dest="hunt")
    what = f"a study in the place of variants and settings, of which options change some: {', '.join(study_names())}"
    parser.add("--study", "NAME", what)
    parser.add("--root", "FOLDER", "the folder in which the study's data lies")
    parser.add_settings("comparison", ComparisonSettings)
    parser.add_run_options(task, without=[*ComparisonSettings.model_fields, *UNPAIRED])


@verb(
    "is A better than B? train variants alike and test the difference",
    "VARIANT [VARIANT ...]",
    compare_options,
    examples=[
        "transformula compare pre-norm post-norm --budget 20m --dry-run",
        "transformula compare pre-norm --vary optimizer=adamw,muon --protocol quick",
        "transformula compare pre-norm post-norm --data shakespeare.txt --budget 20m --dry-run",
        "transformula compare pre-norm post-norm --data shakespeare.txt --budget 20m",
        'transformula compare pre-norm "mine: x = x + attention(norm(x)); x = x + scalar(0) * mlp(norm(x))"'
        " --data shakespeare.txt --until decided",
        "transformula compare pre-norm --vary optimizer=adamw,muon --data shakespeare.txt --protocol quick",
        "transformula compare pre-norm --vary lr=auto --data shakespeare.txt",
        "transformula compare --study norm-placement --data shakespeare.txt",
        "transformula compare --from hunt --data other.txt --depth 6 --width 256",
    ],
)
def compare(given: Given) -> int:
    """Is A better than B? Variants are trained alike: with the same seeds, which pair them, a learning rate tuned for
    each, and equal tokens, parameters, FLOPs or time. The report says in plain words what was found, how sure it is,
    and what may be claimed. The comparison's folder holds the plan, written before anything runs, the results and the
    report; runs lie in the store, and other comparisons use them again. Ctrl-C and SIGTERM save; the same command goes
    on. With more variants or seeds it adds to what is there. The exit status is 3 if a variant is undecided."""
    from ..comparison.compare import compare

    more = given.some("task")
    if given["hunt"] is not None:
        from ..search.found import variants_of

        if given["variants"]:
            raise InputError(f"{setting('from', given['hunt'])} has its own variants; leave the others out")
        more["variants"] = variants_of(given["hunt"])
    try:
        compared = given.call(compare, **more)
    except Interrupted as error:
        typed = shlex.join(["transformula", "compare", *given.parser.arguments])
        raise type(error)(f"{error}\nto go on: {typed}") from None
    given.show(compared)
    return getattr(compared, "exit_status", 0)
