"""The text of a document that is laid out, such as a page: its paragraphs, a line each."""

from __future__ import annotations

import re

BLANK = re.compile("[ \t\n\r\f]+")


class Flowing:
    """Text that arrives in pieces, and the ends of lines between them."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []

    def add(self, text: str) -> None:
        """More of the line."""
        self._line.append(text)

    def end(self, kept: bool = False) -> None:
        """The line ends, if it holds anything. Blanks in a row become one, unless they are to be kept."""
        text = "".join(self._line)
        self._line.clear()
        text = text.strip("\n") if kept else BLANK.sub(" ", text).strip(" ")
        if text.strip():
            self._lines.append(text)

    def text(self) -> str:
        """All lines."""
        self.end()
        return "".join(f"{line}\n" for line in self._lines)
