"""What a command prints: with --json one object on standard output, of a result or of an error; else text."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import TransformulaError
from ..plain import plain

OPTION = "--json"

EXIT_CODES = """\
exit status: 0 done, 1 failed while running, 2 wrong input, 3 undecided (comparisons), 130 interrupted"""


def as_json(data: Mapping[str, Any]) -> str:
    """The one object that a verb prints with --json. Numbers that are not finite are null."""
    return json.dumps(plain(data), indent=1, allow_nan=False)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether --json was typed. Known without the verb's options, so that a mistake in those is an object too."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return OPTION in options


def print_error(error: TransformulaError, text: str, arguments: Sequence[str]) -> None:
    """Print an error as the command that was typed wants it: one object on standard output, or `text` beside it."""
    if wants_json(arguments):
        print(as_json({"error": error.data}))
        return
    sys.stdout.flush()
    print(text, file=sys.stderr)
