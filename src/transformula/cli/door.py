"""The door: which verb, and the one place where an error becomes a message and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ..errors import TransformulaError, UnknownName

VERBS = {
    "train": "train a model on your text",
    "sample": "write text with a trained model",
    "translate": "write a text for a text, with a model that was trained on pairs",
    "summarise": "write a short text for a text",
    "caption": "write a text for a picture",
    "evaluate": "score a trained model on what its run has held back, or on other data",
    "reproduce": "train and score as a recipe says, and hold its claim against what is found",
    "explain": "what a formula says: what each line reads, skips, gain, warnings",
    "summary": "shapes, parameters, FLOPs and memory, line by line",
    "gallery": "wirings and whole models by name: list, search, show, draw, diff, the nearest to yours",
    "curves": "the loss curves of several runs in one picture",
    "cache": "what was prepared from data, and clearing it",
}
"""Verb -> what it is for. Each is the file of its name in this folder."""

EXIT_CODES = """\
exit status: 0 done, 1 failed while running, 2 wrong input, 3 undecided (comparisons), 130 interrupted"""

HELP = """\
usage: transformula VERB ...

Transformers whose layers are written as their equations.

{verbs}

  transformula VERB --help     its options, with an example
  transformula --version

example: transformula explain "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)"
{codes}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status. Errors meant for a user are printed without a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = dispatch(arguments)
        sys.stdout.flush()
        return status
    except TransformulaError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who read has read enough (`| head`). Python would complain once more on closing the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def dispatch(arguments: list[str]) -> int:
    """Find the verb and run it."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP.format(verbs="\n".join(f"  {v:<11} {what}" for v, what in VERBS.items()), codes=EXIT_CODES))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from .. import __version__

        print(f"transformula {__version__}")
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        raise UnknownName("verb", verb, VERBS)
    return int(import_module(f".{verb}", __package__).run(rest))
