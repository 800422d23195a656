"""Answers that are kept while a file of inputs is being answered, so that the same command goes on where it stopped.

Beside the file of answers stands `.NAME.answers` until that is written: first what was asked (the inputs' file, the
model, the settings), then, for each few inputs, their lines. A file of another question is begun again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from ..errors import InputError


class KeptAnswers:
    """Lines of answers by a file of its own.

    count   inputs that are answered in it
    lines   their lines, without the `head` of the file
    """

    def __init__(self, output: str | Path, asked: str, head: Sequence[str] = ()) -> None:
        target = Path(output)
        self.path = target.with_name(f".{target.name}.answers")
        self.asked, self.head = asked, list(head)
        self.count, self.lines = 0, list[str]()
        self._file: TextIO | None = None
        self._good = 0  # bytes of rows that are whole and of this question
        for row, end in self._rows():
            if row is None or (not self._good and row != {"asked": asked}):
                break
            if self._good:
                self.count = int(row["count"])
                self.lines += row["lines"]
            self._good = end

    def _rows(self) -> Any:
        """Each row that is whole, with the byte behind it; None for one that is not."""
        if not self.path.is_file():
            return
        end = 0
        for line in self.path.read_bytes().splitlines(keepends=True):
            end += len(line)
            try:
                row = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                row = None
            yield row, end

    def add(self, count: int, lines: Sequence[str]) -> None:
        """Keep the lines of some more inputs, `count` of them in all now. Raises InputError."""
        try:
            if self._file is None:
                self._file = open(self.path, "r+" if self._good else "w", encoding="utf-8")
                self._file.truncate(self._good)
                self._file.seek(self._good)
                if not self._good:
                    self._file.write(json.dumps({"asked": self.asked}) + "\n")
            self._file.write(json.dumps({"count": count, "lines": list(lines)}) + "\n")
            self._file.flush()
        except OSError as error:
            raise InputError(f"--output: {self.path}: cannot be written ({error.strerror})") from None
        self.lines += lines
        self.count = count

    @property
    def all_lines(self) -> list[str]:
        """The whole file of answers."""
        return [*self.head, *self.lines]

    def leave(self) -> None:
        """Close the file, which stays for the next command."""
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        """The answers were written where they belong."""
        self.path.unlink(missing_ok=True)


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
