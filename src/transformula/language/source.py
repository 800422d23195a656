"""Texts and places in them: what lets an error underline, and a traceback point into a formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Source:
    """A formula's text and where it comes from."""

    name: str  # what a person calls it: "layer", "before", "definition swiglu"
    text: str
    file: str = ""  # the file it stands in; "" if it was typed
    first_line: int = 1  # the line of the file on which the text starts
    indent: int = 0  # columns that the file puts before each line of the text

    def line(self, number: int) -> str:
        """Line `number` (from 1) of the text."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""

    @property
    def start(self) -> Place:
        return Place(self, 1, 0, 1, max(1, len(self.line(1))))


@dataclass(frozen=True, slots=True)
class Place:
    """From (line, column) to (end_line, end_column) of a source: lines from 1, columns from 0, the end excluded."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def one_line(self) -> bool:
        return self.line == self.end_line

    @property
    def where(self) -> str:
        """'gpt2.yaml:9, layer' or 'layer, line 2'."""
        if self.source.file:
            return f"{self.source.file}:{self.source.first_line + self.line - 1}, {self.source.name}"
        return f"{self.source.name}, line {self.line}"

    @property
    def text(self) -> str:
        """The text at the place (of its first line)."""
        row = self.source.line(self.line)
        return row[self.column : self.end_column if self.one_line else len(row)]

    @property
    def data(self) -> dict[str, Any]:
        """As plain data: `part` of the model, `file` and `line` (of the file, or of what was typed), `column` from 1,
        and the `text` that is underlined."""
        source = self.source
        line = source.first_line + self.line - 1 if source.file else self.line
        column = self.column + (source.indent if source.file else 0) + 1
        file = {"file": source.file} if source.file else {}
        return {"part": source.name, **file, "line": line, "column": column, "text": self.text}

    def underlined(self, most: int = 100) -> str:
        """The line, and below it the place underlined."""
        row = self.source.line(self.line)
        end = self.end_column if self.one_line else len(row)
        start, width = self.column, max(1, min(end, len(row)) - self.column)
        if len(row) > most:
            cut = max(0, min(start - 20, len(row) - most))
            row, start = ("..." if cut else "") + row[cut : cut + most], start - cut + (3 if cut else 0)
            width = max(1, min(width, len(row) - start))
        return f"    {row}\n    {' ' * start}{'^' * width}"
