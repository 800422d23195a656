"""Files that exist in name only: what makes a traceback show the formula's own line.

Python looks up the text of a code's file in `linecache`. The code that is generated from a formula says that it stands
in `<formula gpt2: layer>`, and the formula's text is put there under that name. Where a formula calls definitions,
their texts follow its own.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections import OrderedDict
from types import TracebackType
from typing import TypedDict

from ..language.source import Place, Source

MOST = 2000
"""Texts kept; the oldest are given up first. Their code still runs, its tracebacks only show no text."""


class SourceSpan(TypedDict):
    """The attributes of a syntax node that say where it stands."""

    lineno: int
    col_offset: int
    end_lineno: int
    end_col_offset: int


_kept: OrderedDict[str, str] = OrderedDict()


class PseudoFile:
    """The text of one formula, then those of the definitions it calls. `row` turns their lines into the file's."""

    def __init__(self, title: str, sources: list[Source]) -> None:
        self.first: dict[Source, int] = {}
        rows: list[str] = []
        for number, source in enumerate(sources):
            if number:
                rows.append(f"# {source.name}")
            self.first[source] = len(rows)
            rows += source.text.splitlines() or [""]
        self.name = register(title, "\n".join(rows) + "\n")

    def span(self, place: Place | None) -> SourceSpan:
        """The attributes of a syntax node that stands at a place."""
        if place is None or place.source not in self.first:
            return {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
        first = self.first[place.source]
        return {
            "lineno": first + place.line,
            "col_offset": place.column,
            "end_lineno": first + place.end_line,
            "end_col_offset": place.end_column,
        }


def register(title: str, text: str) -> str:
    """Put a text where tracebacks find it; its file's name, `<formula TITLE>`, counted on if another text has it."""
    if sys.version_info < (3, 13) and sys.excepthook is sys.__excepthook__:
        sys.excepthook = show
    title = re.sub(r"[^\w ,.:+-]", "_", title, flags=re.ASCII)[:80]
    number = 1
    while True:
        name = f"<formula {title}>" if number == 1 else f"<formula {title} ({number})>"
        if _kept.get(name, text) == text:
            break
        number += 1
    _kept[name] = text
    _kept.move_to_end(name)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    while len(_kept) > MOST:
        linecache.cache.pop(_kept.popitem(last=False)[0], None)
    return name


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What prints an uncaught error: before Python 3.13 the interpreter's own looks for a file on the disk only, and
    so shows no line of a formula. Errors that passed no formula are left to it."""
    if any(f.f_code.co_filename.startswith("<formula ") for f, _ in traceback.walk_tb(trace)):
        traceback.print_exception(kind, error, trace)
    else:
        sys.__excepthook__(kind, error, trace)
