"""What a command prints: with --json one object on standard output, of a result or of an error; else text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, TransformulaError
from ..plain import plain
from .streams import as_utf8

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


def line_of(text: str) -> str:
    """A text on one line: a line's end becomes a space."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


class Sink:
    """Where lines go, always in UTF-8: standard output as they come, or a file when all are there."""

    def __init__(self, output: str | None, shown: bool = True) -> None:
        self.output, self.shown, self.kept = output, shown, list[str]()
        if output is None and shown:
            as_utf8()

    def add(self, lines: Iterable[str]) -> None:
        """Take lines, without their ends."""
        self.kept += lines

    def flush(self) -> None:
        """Show what is there, unless it goes to a file."""
        if self.output is None:
            if self.shown:
                sys.stdout.writelines(f"{line}\n" for line in self.kept)
                sys.stdout.flush()
            self.kept.clear()

    def close(self) -> None:
        """Nothing more comes."""
        if self.output is not None:
            write_output(self.output, self.kept)


def check_output(output: str | None) -> None:
    """Raise InputError, before any work, for a file that cannot be written."""
    if output is None:
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        raise InputError(f"--output {output}: is there already, and no plain file; name another, or write to a pipe: >")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {path.parent}; make it first")


def write_output(output: str, lines: Iterable[str]) -> None:
    """Write a file of lines, whole or not at all. Raises InputError."""
    from ..atomic_io import write_whole

    try:
        write_whole(Path(output), "".join(f"{line}\n" for line in lines).encode("utf-8"))
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error.strerror})") from None
