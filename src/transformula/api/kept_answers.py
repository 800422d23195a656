"""Answers that are kept while a file of inputs is being answered, so that the same command goes on where it stopped.

Beside the file of answers stands `.NAME.answers` until that is written: first what was asked (the inputs' file, the
model, the settings), then, for each few inputs, their lines.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..atomic_io import flocked
from ..errors import InputError

BEGUN = "asked"  # the key of the first line


class KeptAnswers:
    """Lines of answers by a file of its own. A file of another question, or one that is none of these, is begun again.

    count   inputs that are answered in it
    lines   their lines, without the `head` of the file
    others  what the file that is there says was asked, where that is something else; None: nothing else is there
    """

    def __init__(self, output: str | Path, asked: Any, head: Sequence[str] = ()) -> None:
        target = Path(output)
        self.path = target.with_name(f".{target.name}.answers")
        self.asked, self.head = asked, list(head)
        self.count, self.lines = 0, list[str]()
        self.others: Any = None
        self._file: BinaryIO | None = None
        self._good = 0  # bytes of rows that are whole and of this question
        content = self.path.read_bytes() if self.path.is_file() else b""
        self._seen = len(content)
        for row, end in rows_of(content):
            if not self._good and (row or {}).get(BEGUN) != asked and b"\n" in content:
                self.others = (row or {}).get(BEGUN, "")
            if row is None or self.others is not None:
                break
            if self._good:
                self.count = int(row["count"])
                self.lines += row["lines"]
            self._good = end

    def begin(self) -> None:
        """Take the file for this process alone. Raises InputError where another one writes it, and where the disk takes
        none."""
        if self._file is not None:
            return
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            file = os.fdopen(handle, "r+b")
            if not flocked(handle) or os.fstat(handle).st_size != self._seen or not self.path.exists():
                file.close()
                raise InputError(f"{self.path}: another process writes it just now: wait for it, or name another file")
            self._file = file
            file.truncate(self._good)
            file.seek(self._good)
            if not self._good:
                self._write({BEGUN: self.asked})
        except OSError as error:
            raise self._refused(error) from None

    def add(self, count: int, lines: Sequence[str]) -> None:
        """Keep the lines of some more inputs, `count` of them in all now. Raises InputError."""
        self.begin()
        try:
            self._write({"count": count, "lines": list(lines)})
        except OSError as error:
            raise self._refused(error) from None
        self.lines += lines
        self.count = count

    def _write(self, row: Any) -> None:
        assert self._file is not None
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()

    def _refused(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: cannot be written ({error.strerror})")

    @property
    def all_lines(self) -> list[str]:
        """The whole file of answers."""
        return [*self.head, *self.lines]

    def leave(self) -> None:
        """Close the file, which stays for the next command where it has answers."""
        if self._file is None:
            return
        if not self.count:
            self.remove()
        self._file.close()
        self._file = None

    def remove(self) -> None:
        """The answers were written where they belong."""
        self.path.unlink(missing_ok=True)


def rows_of(content: bytes) -> Any:
    """Each row that is whole, with the byte behind it; None for one that is not."""
    end = 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            row = None
        yield row if isinstance(row, dict) else None, end


def question(model: Path, inputs: Path, *others: Any) -> str:
    """What tells one question from another: the files of the model and of the inputs, and how they are asked."""
    state = hashlib.sha256()
    for path in sorted(each for each in model.rglob("*") if each.is_file()):
        about = path.stat()
        state.update(f"{path.name} {about.st_size} {about.st_mtime_ns}\n".encode())
    with open(inputs, "rb") as file:
        while piece := file.read(1 << 20):
            state.update(piece)
    state.update(json.dumps(others, sort_keys=True, default=str).encode())
    return state.hexdigest()
