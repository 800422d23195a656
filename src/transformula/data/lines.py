"""Lines of UTF-8 in the pieces in which they come: a pipe's first lines are there before its last ones are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import DataError
from .records import unpacked, whole_line

PIECE = 1 << 16
"""Bytes that are read at once, at most."""


def arriving_lines(file: BinaryIO, path: Path) -> Iterator[list[str]]:
    """The lines that were complete at each reading. A line ends at \\n, or at \\r\\n, and nowhere else.

    path  how the file is called in errors

    A byte-order mark is left out; nothing comes of an empty file. Raises DataError with the line and its bytes where it
    is no UTF-8, once the lines before are given out.
    """
    read = getattr(file, "read1", file.read)
    number = at = 0
    rest = b""
    while True:
        fresh = unpacked(lambda: read(PIECE), path, number + 1)
        *complete, rest = (rest + fresh).split(b"\n") if fresh else ([rest, b""] if rest else [b""])
        lines: list[str] = []
        for raw in complete:
            number += 1
            try:
                lines.append(whole_line(raw, number, at, path))
            except DataError:
                if lines:
                    yield lines
                raise
            at += len(raw) + 1
        if lines:
            yield lines
        if not fresh:
            return
