"""What a report is made of, whatever it is written as: sections of paragraphs, tables, pictures and texts as they are.

A section is one file in `sections/`: a function of the results under `@section(place)`. The renderers (`terminal`,
`markdown`, `page`) know these few kinds of items, and nothing of comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from ...figure import AS_WRITTEN, png_of, svg_of
from ...registry import Registry
from ..records import Results

Mark = Literal["", "good", "bad", "open"]


@dataclass(frozen=True)
class Cell:
    """One field of a table. `value` is the number in full, or another text by which its column is sorted."""

    text: str
    value: float | str | None = None
    mark: Mark = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text. `label` stands before it; brief: a terminal shows it, too; `points`: a list below."""

    text: str
    label: str = ""
    brief: bool = False
    points: Sequence[str] = ()


@dataclass(frozen=True)
class ReportTable:
    """A table. The first `keys` columns say what a row is about.

    brief     a terminal shows it, too
    terminal  what a terminal shows in its place
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    keys: int = 1
    brief: bool = False
    terminal: ReportTable | None = None

    @cached_property
    def numeric(self) -> set[int]:
        """The columns that hold numbers: they stand at the right."""
        return {n for row in self.rows for n, cell in enumerate(row) if isinstance(cell.value, (int, float))}


@dataclass(frozen=True)
class Picture:
    """A picture, drawn when it is first asked for: a figure of matplotlib's, or SVG.

    name    of its files; alt: what it shows, in words, for whoever cannot see it; caption: how it is read
    wide    has several panels
    linked  its links (`set_url` of matplotlib) lead to places of the page, in which it stands as a part
    """

    name: str
    alt: str
    draw: Callable[[], Any]
    caption: str = ""
    wide: bool = False
    linked: bool = False

    @cached_property
    def _drawn(self) -> Any:
        with as_written():
            return self.draw()

    @cached_property
    def svg(self) -> str:
        """SVG that refers to nothing outside, and is dark where the page prefers that. Its letters are text, so that
        it can be searched, and small."""
        if isinstance(self._drawn, str):
            return self._drawn
        with as_written():
            svg = svg_of(self._drawn)
        self._drawn.set_layout_engine(None)  # its parts have their places now: no need to seek them again
        return re.sub(r' d="[^"]*"', shortened_path, svg)

    @cached_property
    def png(self) -> bytes | None:
        """The same as PNG; None for a diagram, which is SVG alone."""
        if not self.svg or isinstance(self._drawn, str):
            return None
        with as_written():
            return png_of(self._drawn)


@dataclass(frozen=True)
class Literally:
    """A text that is shown letter by letter, such as a sample or a formula, with a picture below it. `name` is that of
    its place in the page, for links."""

    title: str
    text: str
    brief: bool = False
    name: str = ""
    picture: Picture | None = None


Item = Paragraph | ReportTable | Picture | Literally


@dataclass(frozen=True)
class ReportSection:
    """A part of a report under one heading. `name` is that of its file and of its place in the page."""

    title: str
    items: Sequence[Item]
    name: str = ""


@contextmanager
def as_written() -> Iterator[None]:
    """Letters of pictures are text, and no formulas of TeX: names are users' own, dollars included."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", **AS_WRITTEN}):
        yield


def shortened_path(path: re.Match[str]) -> str:
    """A path in hundredths of a point: a third of a picture is digits that nobody sees."""
    return re.sub(r"(\.\d\d)\d+", r"\1", " ".join(path[0].split()).join((" ", "")))


Maker = Callable[[Results], ReportSection | None]
sections: Registry[tuple[int, Maker]] = Registry("section of a report", "transformula.comparison.report.sections")


def section(place: int) -> Callable[[Maker], Maker]:
    """Decorator of a function `results -> ReportSection`, None where there is nothing to say; sections stand in the
    order of their places."""

    def decorate(make: Maker) -> Maker:
        sections.register(make.__name__.replace("_", "-"))((place, make))
        return make

    return decorate


def sections_of(results: Results, names: Iterable[str] | None = None) -> list[ReportSection]:
    """The sections of a report in order; `names`: only these."""
    placed = sorted(names or sections.names(), key=lambda name: sections.get(name)[0])
    parts = {name: sections.get(name)[1](results) for name in placed}
    return [replace(part, name=name) for name, part in parts.items() if part is not None]


def pictures_of(parts: Iterable[ReportSection]) -> list[Picture]:
    """All pictures of these sections."""
    items = [item for part in parts for item in part.items]
    below = [item.picture for item in items if isinstance(item, Literally) and item.picture is not None]
    return [*(item for item in items if isinstance(item, Picture)), *below]
