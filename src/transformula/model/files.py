"""What makes an error show the formula's own line. For tracebacks these are files that exist in name only.

Python looks up the text of a code's file in `linecache`. The code that is generated from a formula says that it stands
in `<formula gpt2: layer>`, and the formula's text is put there under that name.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType

from ..errors import InputError
from ..language.source import Place, Source

MAX_TEXTS = 2000  # texts kept; the oldest are given up first: their code still runs, its tracebacks only show no text
_texts: OrderedDict[str, str] = OrderedDict()


class PseudoFile:
    """A file of several texts, such as a formula and the definitions that it calls, called `<formula TITLE>`, counted
    on if another text has that name."""

    def __init__(self, title: str, sources: Sequence[Source]) -> None:
        if sys.version_info < (3, 13) and sys.excepthook is sys.__excepthook__:
            sys.excepthook = show
        self.first: dict[Source, int] = {}
        rows: list[str] = []
        for number, source in enumerate(sources):
            if number:
                rows.append(f"# {source.name}")
            self.first[source] = len(rows)
            rows += source.text.splitlines() or [""]
        text = "\n".join(rows) + "\n"
        title = re.sub(r"[^\w ,.:+-]", "_", title, flags=re.ASCII)[:80]
        self.name, number = f"<formula {title}>", 1
        while _texts.get(self.name, text) != text:
            number += 1
            self.name = f"<formula {title} ({number})>"
        _texts[self.name] = text
        _texts.move_to_end(self.name)
        linecache.cache[self.name] = (len(text), None, text.splitlines(keepends=True), self.name)
        while len(_texts) > MAX_TEXTS:
            linecache.cache.pop(_texts.popitem(last=False)[0], None)

    def span(self, place: Place | None) -> dict[str, int]:
        if place is None or place.source not in self.first:
            return {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
        first = self.first[place.source]
        ends = {"end_lineno": first + place.end_line, "end_col_offset": place.end_column}
        return {"lineno": first + place.line, "col_offset": place.column, **ends}


def at_place(what: str, place: Place | None, title: str = "") -> InputError:
    """An error that says where in the formula, with the place underlined."""
    if place is None:
        return InputError(what)
    # "before: before, line 1" would say it twice
    prefix = "" if not title or place.source.name == title else f"{title}: "
    return InputError(f"{prefix}{place.where}: {what}\n{place.underlined()}")


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What prints an uncaught error: before Python 3.13 the interpreter's own looks for a file on the disk only, and
    so shows no line of a formula. Errors that passed no formula are left to it."""
    if any(f.f_code.co_filename.startswith("<formula ") for f, _ in traceback.walk_tb(trace)):
        traceback.print_exception(kind, error, trace)
    else:
        sys.__excepthook__(kind, error, trace)
