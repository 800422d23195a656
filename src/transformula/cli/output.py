"""What a command prints: with --json one object on standard output, of a result or of an error; else text.

A character that an encoding lacks is written as its escape (`\\u65e5`): a result is never lost for one. Standard error
is for messages: where it takes nothing more (a closed pipe, a full disk), the command continues without them, so a run
outlives whoever watched it. What is printed on standard output is what was asked for: there the command learns of it,
as `OutputLost`.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..plain import plain

OPTION = "--json"
ESCAPES = "backslashreplace"
EXIT_CODES = """\
exit status: 0 done, 1 failed while running, 2 wrong input, 3 undecided or different, 75 preempted, 124 hung, \
130 interrupted"""


def as_json(data: Mapping[str, Any]) -> str:
    """The one object that a verb prints with --json. Numbers that are not finite are null."""
    return json.dumps(plain(data), indent=1, allow_nan=False)


def line_of(text: str) -> str:
    """A text on one line: a line's end becomes a space."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


class Notes:
    """What is to be known of answers: said once, on standard error, with how many answers it is true of."""

    def __init__(self) -> None:
        self.answers = 0
        self.met: Counter[str] = Counter()  # answers, by what is to be known of them
        self.messages: Counter[str] = Counter()  # messages that these left out

    def add(self, answer: Any, before: int = 0) -> str:
        """Note an answer; what is to be known of it, where it is the first of which that is true. `before`: how many
        messages the answer before it left out, in one conversation: none is counted twice."""
        note: str = getattr(answer, "note", "")
        self.answers += 1
        self.met[note] += 1
        self.messages[note] += max(0, getattr(answer, "left_out", 0) - before)
        return note if self.met[note] == 1 else ""

    def print(self) -> None:
        for note, answers in sorted(self.met.items()):
            more = f"; {self.messages[note]:,} messages in all" if self.messages[note] else ""
            if note:
                print(f"note: {note} ({answers:,} of {self.answers:,}{more})", file=sys.stderr)


def check_output(output: str | None, option: str = "--output") -> None:
    """Raise InputError, before any work, for a file that cannot be written."""
    if output is None:
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        raise InputError(f"{option} {output}: is there already, and no plain file; name another, or write to a pipe: >")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {output}: there is no folder {path.parent}; make it first")


def write_output(output: str, lines: Iterable[str], option: str = "--output") -> None:
    """Write a file of lines, whole or not at all. Raises InputError."""
    write_bytes(output, "".join(f"{line}\n" for line in lines).encode("utf-8"), option)


def write_array(output: str, rows: Sequence[Any]) -> None:
    """Write vectors as one array (rows, width) of a .npy file. Raises InputError for what are no vectors."""
    import numpy as np

    if len({np.shape(row) for row in rows}) != 1 or np.ndim(rows[0]) != 1:
        raise InputError(f"--output {output}: holds a vector for each input; there is none of a pair, or with --among")
    file = io.BytesIO()
    np.save(file, np.stack(rows))
    write_bytes(output, file.getvalue())


def write_bytes(output: str, content: bytes, option: str = "--output") -> None:
    """Write a file, whole or not at all. Raises InputError."""
    from ..atomic_io import write_whole

    try:
        write_whole(Path(output), content)
    except OSError as error:
        raise InputError(f"{option} {output}: cannot be written ({error.strerror})") from None


class OutputLost(OSError):
    """Standard output takes nothing more."""


class _Stream(io.FileIO):
    """Standard output, whose failure is told apart from that of any other file, or standard error, which drops what it
    cannot take."""

    drops = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.drops:
                return len(memoryview(data).cast("B"))
            raise OutputLost(error.errno, error.strerror) from None


def open_streams() -> None:
    """Make the standard streams ready for a command. Streams that a caller has put in their place stay as they are."""
    # The null device for each closed one: the next file opened would take its number, and receive the messages.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
        elif mode == "w" and stream is getattr(sys, f"__{name}__"):
            stream.flush()
            raw = _Stream(stream.fileno(), "w", closefd=False)
            raw.drops = name == "stderr"
            alike: dict[str, Any] = {key: getattr(stream, key, False) for key in ("line_buffering", "write_through")}
            setattr(
                sys, name, io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=ESCAPES, **alike)
            )


def discard_output() -> None:
    """Let what is left for standard output go to the null device: Python writes it once more when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
