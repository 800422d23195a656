"""Verbs that make and judge runs: train, evaluate, repeat, reproduce."""

from __future__ import annotations

import argparse
import os

from ..errors import InputError
from .options import MODEL, QUIET, RUN, USE, WITH, Given, Parser, machine, option, verb
from .output import check_output, line_of, write_output


def train_options(parser: Parser) -> None:
    """Its options; those of the task come once the task is known, which `--use`, a file or a run may say."""
    from ..api.reading import TASK
    from ..api.starting import task_named

    what = f"what the model learns: a task that --help all lists (default: that of --init-from, else {TASK});"
    what += " beside it --help all shows the options of this task"
    parser.add("--task", "NAME", what, basic=True, default=argparse.SUPPRESS)
    parser.add("--config", "FILE", "a run's configuration; options typed beside it take precedence")
    parser.add("--resume", "RUN", "continue this run exactly where it stopped", basic=True)
    what = "start from this run's weights and tokenizer; with another MODEL, the stacks that match are loaded"
    parser.add("--init-from", "RUN", what, basic=True)
    what = "the stack of MODEL that loads the layers of --init-from, of one stack; or the stack of --init-from that"
    parser.add("--init-stack", "NAME", f"{what} becomes a model of one stack")
    what = "train a trained MODEL's text from randomly initialized weights"
    parser.add("--from-scratch", None, what, action="store_true", default=argparse.SUPPRESS)
    QUIET(parser)
    USE(parser)
    begun = parser.begin()
    task = task_named(getattr(begun, "task", None), begun.config, begun.resume, begun.init_from, begun.use)
    parser.add("model", "MODEL", f"{MODEL}; some tasks, such as classification, have one of their own", nargs="?")
    parser.add_run_options(task)


@verb(
    "train a model on your data",
    "[MODEL]",
    train_options,
    examples=[
        "transformula train pre-norm --depth 2 --width 64 --steps 200",
        "transformula train --resume runs/pre-norm --steps 400",
        'transformula train "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)" --minutes 4',
        "transformula train model.yaml --data shakespeare.txt --depth 4 --width 128 --heads 4 --context 64 --batch 12",
        "transformula train translator --task translation --data 'train.{de,en}' --validation 'val.{de,en}'"
        " --epochs 10",
        "transformula train --task classification --data reviews.csv",
        "transformula train --task translation --help all",
        "transformula train --resume runs/first --steps 4000",
        "torchrun --standalone --nproc-per-node 2 -m transformula train model.yaml --data shakespeare.txt",
        "transformula train --init-from runs/first --data other.txt",
        "transformula train --init-from runs/first --data other.txt --lora rank=8",
        "transformula train translator --task translation --data 'train.{de,en}' --init-from runs/span",
    ],
)
def train(given: Given) -> int:
    """Train a model on your data. The run's folder holds everything: the model, checkpoints, a log, the loss curve, a
    summary, and the complete configuration. Ctrl-C finishes the step, saves a checkpoint, and prints the command that
    resumes."""
    from ..api.run import train

    ended = given.call(train, **given.some("task"))
    result = ended.result
    if not ended.first:
        return result.exit_status
    rows = [*(f"  | {row}" for row in result.sample.splitlines()), ""] if result.sample else []
    rows += [repr(ended), *([f"use: {result.usage}"] if result.usage else []), f"go on: {result.resume}"]
    given.show("\n".join(rows), ended.data)
    return result.exit_status


def evaluate_options(parser: Parser) -> None:
    """Its options; those of the task come once the run is known, which says the task."""
    from ..api.reading import import_packages, of_task
    from ..api.run import task_of

    parser.add("--data", "VALUE", "score this data instead; may be repeated", action="append")
    WITH(parser)
    parser.add("--output", "FILE", "write the model's outputs there, one per line")
    what = "write a picture there, as SVG: of a model of labels or tags the reliability diagram, of a language model"
    parser.add("--figure", "FILE", f"{what} what --contexts and --by show")
    machine(parser)
    parser.add("--task", "NAME", "score it as a model of this task, instead of the one that it was trained for")
    begun = parser.begin()
    import_packages(begun.use)
    named = [argument for argument in parser.rest if not argument.startswith("-")]  # RUN, and values of further options
    run = next(iter([*filter(os.path.isdir, named), *named]), None)
    parser.add("run", "RUN", RUN)
    settings = of_task(begun.task or task_of(run), "evaluation")
    parser.add_settings("scoring", settings, without=("data", "validation", "tokenizer", "n_best"))
    if "weights" not in settings.model_fields:
        what = "int8: score it as a model whose matrices have one byte a number (default: float32)"
        parser.add("--weights", "TYPE", what, choices=["float32", "int8"], default="float32")


@verb(
    "score a trained model on held-out data or on other data",
    "RUN",
    evaluate_options,
    examples=[
        "transformula evaluate runs/demo",
        "transformula evaluate runs/demo --data other.txt --json",
        "transformula evaluate runs/demo --contexts 64,128,256 --by position --figure losses.svg",
        "transformula evaluate runs/translator --data 'test.{de,en}' --beam 5 --output written.en",
        "transformula evaluate runs/reviews --figure reliability.svg",
        "transformula evaluate runs/translator --help",
    ],
)
def evaluate(given: Given) -> int:
    """Score a trained model on the data that its run held out. A language model is scored on the whole validation set,
    in nats per token, perplexity and bits per byte, beside n-gram baselines; --contexts scores the same text in shorter
    and longer windows, too, and --by says where its loss lies. A model that writes targets is scored on
    the test set (default: the validation set), with confidence intervals, signatures, trivial baselines, and the best
    and the worst examples. So is a model of labels, tags, answers or vectors; of labels and tags, the report also says
    what is taken for what, and whether their probabilities hold (--figure: a reliability diagram). --data scores other
    data; the baselines still learn from the run's training set. The options depend on the run's task: transformula
    evaluate RUN --help lists them."""
    from ..api.run import evaluate
    from ..data.preview import counting
    from ..data.settings import LanguageScoring
    from ..generation.settings import SearchSettings
    from ..tasks.rows import RowEvaluation

    (settings,) = given.parser.settings
    check_output(given["output"])
    check_output(given["figure"], "--figure")
    if given["output"] is not None and not issubclass(settings, (SearchSettings, RowEvaluation)):
        raise InputError("--output: this task's evaluation writes no texts; leave it out")
    no_diagram = InputError("--figure: this task's evaluation has no diagram; leave it out")
    if given["figure"] is not None and issubclass(settings, LanguageScoring):
        no_diagram = InputError("--figure: there is nothing to draw; add --contexts 128,256 or --by position")
        if not given.some("contexts", "by"):
            raise no_diagram
    elif given["figure"] is not None and not issubclass(settings, RowEvaluation):
        raise no_diagram
    with counting("scoring") as progress:
        report = given.call(evaluate, models=given["others"], progress=progress)
    if given["output"] is not None and report.written is not None:
        write_output(given["output"], [line_of(text) for text in report.written])
    if given["figure"] is not None:
        if report.svg is None:
            raise no_diagram
        write_output(given["figure"], [report.svg], "--figure")
    return given.show(report)


@verb(
    "run a run again and name the first difference, if any",
    "RUN",
    option("run", "RUN", "the run's folder"),
    option("--out", "FOLDER", "the folder of the repetition (default: RUN-repeat)"),
    USE,
    QUIET,
    examples=["transformula repeat runs/demo", "transformula repeat runs/demo --out runs/again --json"],
)
def repeat(given: Given) -> int:
    """Run a run again, with the same settings, data and seed, and compare with its log, line by line, and with its last
    weights. On the same machine with the same versions no bit differs. If one does, the repetition ends there, and the
    report names the step, the number and both values, and what differs in versions, machine, data and code. The exit
    status is 0 if the runs are the same, 3 if they differ. (reproduce is for recipes: it asks whether a score is
    reached again, on any machine.)"""
    from ..api.repeat import repeat

    repetition = given.call(repeat)
    given.show(repetition)
    return repetition.exit_status


@verb(
    "train and score as a recipe says, and compare with the score it claims",
    "[RECIPE]",
    option("recipe", "RECIPE", "a recipe's name or file", nargs="?"),
    option("--root", "FOLDER", "folder of its data: file names in the recipe are relative to it"),
    option("--out", "FOLDER", "the run's folder (default: runs/ and the recipe's name)"),
    option("--seed", "N", "random seed (default: the recipe's)", type=int),
    option("--device", "TEXT", "cpu, cuda, cuda:1, mps, ... (default: the recipe's)"),
    option("--threads", "N", "CPU threads (default: the recipe's)", type=int),
    USE,
    QUIET,
    examples=[
        "transformula reproduce",
        "transformula reproduce built-in/cldr-dates",
        "transformula reproduce multi30k-de-en --root ../shared/data --seed 2",
    ],
)
def reproduce(given: Given) -> int:
    """Train and score as a recipe says. A recipe is a run's configuration with the score that it should reach. Without
    RECIPE, list those that come with the program. A run that was interrupted is resumed. The exit status is 1 if the
    score is not reached. To see whether a run of your own comes out the same, bit for bit: transformula repeat RUN."""
    changes = given.some("seed", "device", "threads")
    if given["recipe"] is not None:
        from ..api.recipe import reproduce

        reproduced = given.call(reproduce, **changes)
        given.show(reproduced)
        return 0 if reproduced.holds else 1
    if typed := [*given.some("root", "out"), *changes, *(key for key in ("quiet", "use") if given[key])]:
        raise InputError(f"--{typed[0]}: which recipe? transformula reproduce lists them")

    from ..api.recipe import read_recipe
    from ..recipes import recipe_names, recipe_path

    recipes = {name: read_recipe(recipe_path(name))[0] for name in recipe_names()}
    width, rows = max(map(len, recipes)), []
    for name, recipe in recipes.items():
        minutes = "" if recipe.minutes is None else f"; {recipe.minutes:g} minutes"
        rows.append(f"{name:<{width}}  {recipe.about}: {recipe.claim}{minutes}")
    return given.show("\n".join(rows), {"recipes": [{"name": name, **r.plain()} for name, r in recipes.items()]})
