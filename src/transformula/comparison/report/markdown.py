"""A report as Markdown; pictures are files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..records import Results
from .document import Item, Paragraph, Picture, ReportSection, ReportTable, sections_of

FIGURES = "figures"


def markdown_of(results: Results) -> str:
    """The whole report. Its pictures are `figures/NAME.svg`, which `write_report` writes."""
    return markdown(results.name, sections_of(results))


def markdown(title: str, parts: list[ReportSection]) -> str:
    """Sections under a title."""
    rows = [f"# {escaped(title)}", ""]
    for part in parts:
        rows += [f"## {escaped(part.title)}", ""]
        for item in part.items:
            rows += [*item_rows(item), ""]
    return "\n".join(rows)


def escaped(text: str) -> str:
    """Words of users and of the program as they are, on one line, whatever they hold."""
    return re.sub(r"([\\`*_\[\]<>|~#$&])", r"\\\1", " ".join(text.split()))


def item_rows(item: Item) -> Iterator[str]:
    if isinstance(item, Paragraph):
        yield f"**{escaped(item.label)}.** {escaped(item.text)}" if item.label else escaped(item.text)
        yield from ("", *(f"- {escaped(point)}" for point in item.points)) if item.points else ()
    elif isinstance(item, Picture):
        yield f"![{escaped(item.alt)}]({FIGURES}/{item.name}.svg)"
        if item.caption:
            yield from ("", escaped(item.caption))
    elif isinstance(item, ReportTable):
        yield f"| {' | '.join(map(escaped, item.columns))} |"
        yield f"| {' | '.join('---:' if n in item.numeric else '---' for n in range(len(item.columns)))} |"
        for row in item.rows:
            yield f"| {' | '.join(escaped(cell.text) for cell in row)} |"
    else:
        from ...training.report import fence

        yield from (f"{escaped(item.title)}:", "", fence(item.text))
        yield from ("", *item_rows(item.picture)) if item.picture else ()
