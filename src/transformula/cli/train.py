"""`transformula train`: a model learns your text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..errors import InputError
from .explain import MODEL
from .options import Given, Parser
from .output import as_json

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


def make_parser(arguments: Sequence[str]) -> Parser:
    """Its options; those of the task come once the task is known, which `--use`, a file or a run may say."""
    from ..api.configuration import TASK, data_settings
    from ..api.plan import task_named
    from ..training.settings import TrainingSettings

    parser = Parser("train", WHAT, EXAMPLES, "[MODEL]")
    parser.add_argument(
        "--task",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="what the model learns: translation, summarization, captioning, ...; each task has its own data options:"
        f" add --help (default: {TASK})",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a run's configuration; options typed beside it take precedence"
    )
    parser.add_argument("--resume", metavar="RUN", help="continue this run exactly where it stopped")
    parser.add_argument(
        "--init-from",
        metavar="RUN",
        help="start from this run's weights and tokenizer; with another MODEL, the stacks that match are loaded",
    )
    parser.add_argument(
        "--init-stack",
        metavar="NAME",
        help="the stack of MODEL that loads the layers of --init-from, a run with one stack",
    )
    parser.add_argument(
        "--from-scratch",
        action="store_true",
        default=argparse.SUPPRESS,
        help="train a trained MODEL's text from randomly initialized weights",
    )
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    parser.add_use()
    begun = parser.begin(arguments)
    task = task_named(getattr(begun, "task", None), begun.config, begun.resume, begun.use)
    of_task = data_settings(task)
    parser.add_argument("model", metavar="MODEL", nargs="?", help=MODEL)
    parser.add_settings(f"data, of {task}" if task != TASK else "data", of_task)
    parser.add_settings("training", TrainingSettings)
    parser.add_model_options()
    return parser


def run(given: Given) -> int:
    """Train one model."""
    if all(given[key] is None for key in ("model", "config", "resume", "init_from")):
        raise InputError(f"no model: give {MODEL}; see: {given.parser.prog} --help")

    from ..api.run import train

    ended = train(
        given["model"],
        config=given["config"],
        resume=given["resume"],
        init_from=given["init_from"],
        init_stack=given["init_stack"],
        use=given["use"],
        quiet=given["quiet"],
        **given.of(*given.parser.settings),
        from_scratch=given.arguments.get("from_scratch", False),
        **({"task": given["task"]} if "task" in given.arguments else {}),
        **given.model,
    )
    if given["json"]:
        print(as_json(ended.data))
    else:
        sample = ended.result.sample
        if sample:
            print("\n".join(f"  | {row}" for row in sample.splitlines()), end="\n\n")
        print(ended)
        if ended.result.usage:
            print(f"use: {ended.result.usage}")
        print(f"go on: {ended.result.resume}")
    return ended.result.exit_status
