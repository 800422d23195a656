"""The standard streams of a command: what becomes of a character that they cannot show, and of a reader that left.

A character that an encoding lacks is written as its escape (`\\u65e5`): a result is never lost for one. Standard error
is for messages: where it takes nothing more (a closed pipe, a full disk), the command continues without them, so a run
outlives whoever watched it. What is printed on standard output is what was asked for: there the command learns of it,
as `OutputLost`.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

ESCAPES = "backslashreplace"


class OutputLost(OSError):
    """Standard output takes nothing more."""


class _Result(io.FileIO):
    """Standard output; a failure is told apart from that of any other file."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from None


class _Telling(io.FileIO):
    """Standard error; what it cannot take is dropped."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def open_streams() -> None:
    """Make the standard streams ready for a command. Streams that a caller has put in their place stay as they are."""
    _fill_closed()
    if sys.stdout is not None and sys.stdout is sys.__stdout__:
        sys.stdout = _reopened(sys.stdout, _Result)
    if sys.stderr is not None and sys.stderr is sys.__stderr__:
        sys.stderr = _reopened(sys.stderr, _Telling)


def _fill_closed() -> None:
    """Open the null device for each stream that is closed: the next file opened would take its number otherwise, and
    what is told on standard error would end in that file."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def _reopened(stream: Any, kind: type[io.FileIO]) -> Any:
    """The same stream, over another way to write."""
    if isinstance(getattr(getattr(stream, "buffer", None), "raw", None), kind):
        return stream  # as a command before this one in the process has left it
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=ESCAPES,
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


def as_utf8() -> None:
    """Standard output in UTF-8 with plain ends of lines, whatever the machine's own encoding is."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors=ESCAPES, newline="\n")


def discard_output() -> None:
    """Let what is left for standard output go to the null device: Python writes it once more when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
