"""`transformula train`: a model learns your text."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import InputError
from .options import MODEL, Given, Parser

WHAT = """\
Train a model on your data. The run's folder holds everything: the model, checkpoints, a log, the loss curve, a summary,
and the complete configuration. Ctrl-C finishes the step, saves a checkpoint, and prints the command that resumes."""

EXAMPLES = [
    'transformula train "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)" --minutes 4',
    "transformula train model.yaml --data shakespeare.txt --depth 4 --width 128 --heads 4 --context 64 --batch 12",
    "transformula train translator --task translation --data 'train.{de,en}' --validation 'val.{de,en}' --epochs 10",
    "transformula train --task translation --help",
    "transformula train --resume runs/first --steps 4000",
    "transformula train --init-from runs/first --data other.txt",
    "transformula train translator --task translation --data 'train.{de,en}' --init-from runs/span",
]


def make_parser(*arguments: str) -> Parser:
    """Its options; those of the task come once the task is known, which `--use`, a file or a run may say."""
    from ..api.plan import task_named
    from ..api.reading import TASK, of_task
    from ..training.settings import TrainingSettings

    parser = Parser("train", WHAT, EXAMPLES, "[MODEL]")
    what = "what the model learns: translation, summarization, captioning, ...; each task has its own data options: add"
    parser.add("--task", "NAME", f"{what} --help (default: {TASK})", default=argparse.SUPPRESS)
    parser.add("--config", "FILE", "a run's configuration; options typed beside it take precedence")
    parser.add("--resume", "RUN", "continue this run exactly where it stopped")
    what = "start from this run's weights and tokenizer; with another MODEL, the stacks that match are loaded"
    parser.add("--init-from", "RUN", what)
    what = "the stack of MODEL that loads the layers of --init-from, a run with one stack"
    parser.add("--init-stack", "NAME", what)
    what = "train a trained MODEL's text from randomly initialized weights"
    parser.add_argument("--from-scratch", action="store_true", default=argparse.SUPPRESS, help=what)
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    parser.add_use()
    begun = parser.begin(arguments)
    task = task_named(getattr(begun, "task", None), begun.config, begun.resume, begun.use)
    parser.add("model", "MODEL", MODEL, nargs="?")
    parser.add_settings(f"data, of {task}" if task != TASK else "data", of_task(task, "settings"))
    parser.add_settings("training", TrainingSettings)
    parser.add_model_options()
    return parser


def run(given: Given) -> int:
    if all(given[key] is None for key in ("model", "config", "resume", "init_from")):
        raise InputError(f"no model: give {MODEL}; see: {given.parser.prog} --help")

    from ..api.run import train

    settings: dict[str, Any] = {key: given.arguments[key] for key in ("from_scratch", "task") if key in given.arguments}
    settings |= {key: given[key] for key in ("config", "resume", "init_from", "init_stack", "use", "quiet")}
    ended = train(given["model"], **settings, **given.of(*given.parser.settings), **given.model)
    result = ended.result
    rows = [*(f"  | {row}" for row in result.sample.splitlines()), ""] if result.sample else []
    rows += [repr(ended), *([f"use: {result.usage}"] if result.usage else []), f"go on: {result.resume}"]
    given.show("\n".join(rows), ended.data)
    return result.exit_status
