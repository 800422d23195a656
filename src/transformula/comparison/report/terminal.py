"""A report for a terminal: the five lines, the verdicts, what failed. Wide tables are split, and repeat their keys."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ..records import Results
from .document import Item, Paragraph, Picture, ReportSection, ReportTable, sections_of

MIN_WIDTH, MAX_WIDTH = 60, 100
TEXT_WIDTHS = (44, 32, 22, 16)  # of a text in a table, the first that fits; what is longer goes on in the next row


def text_of(results: Results, width: int = 96) -> str:
    """The report as lines of at most `width` letters (60 to 100), without pictures and long tables."""
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    rows = [results.name, "=" * min(len(results.name), width), *section_lines(sections_of(results), width)]
    return "\n".join(line.rstrip() for line in rows) + "\n"


def section_lines(parts: Iterable[ReportSection], width: int = 96) -> Iterator[str]:
    """Sections as lines, each after an empty one; those of which a terminal shows nothing are left out."""
    for part in parts:
        texts = [lines for item in part.items if (lines := list(item_lines(item, width)))]
        if texts:
            yield from ("", part.title, "-" * len(part.title), *(line for lines in texts for line in lines))


def item_lines(item: Item, width: int) -> Iterator[str]:
    if isinstance(item, ReportTable) and item.terminal is not None:
        yield from table_lines(item.terminal, width)
    elif isinstance(item, Picture) or not item.brief:
        return
    elif isinstance(item, ReportTable):
        yield from table_lines(item, width)
    elif isinstance(item, Paragraph):
        label = f"{item.label}: " if item.label else ""
        yield from textwrap.wrap(printable(label + item.text), width, subsequent_indent="  " if label else "")
        for point in item.points:
            yield from textwrap.wrap(printable(f"  - {point}"), width, subsequent_indent="    ")
    else:
        yield from (printable(line) for line in [f"{item.title}:", *item.text.splitlines()])


def printable(text: str) -> str:
    """A text on one line, without signs that steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def table_lines(table: ReportTable, width: int) -> Iterator[str]:
    """The rows of a table; columns beyond the width stand in a table of their own below."""
    for longest in (*TEXT_WIDTHS, TEXT_WIDTHS[0]):  # the widest with which the table needs no second part
        fields = wrapped(table, longest)
        widths = [max(len(line) for row in fields for line in row[n]) for n in range(len(table.columns))]
        if sum(widths) + 2 * len(widths) - 2 <= width:
            break
    for number, columns in enumerate(blocks(table, widths, width)):
        if number:
            yield ""
        for at, row in enumerate(fields):
            for line in range(max(len(row[n]) for n in columns)):
                cells = [(n, row[n][line] if line < len(row[n]) else "") for n in columns]
                yield "  ".join(c.rjust(widths[n]) if n in table.numeric else c.ljust(widths[n]) for n, c in cells)
            if not at:
                yield "  ".join("─" * widths[n] for n in columns)


def wrapped(table: ReportTable, longest: int) -> list[list[list[str]]]:
    """The lines of every field, heads first: texts of at most `longest` letters, heads as wide as what is below."""
    rows = [[printable(cell.text) for cell in row] for row in table.rows]
    below = [max((len(row[n]) for row in rows), default=0) for n in range(len(table.columns))]
    rooms = [wide if n in table.numeric else min(wide, longest) for n, wide in enumerate(below)]
    heads = [max(room, *map(len, name.split())) for room, name in zip(rooms, table.columns, strict=True)]
    fields = [(list(table.columns), heads), *((row, [max(room, 1) for room in rooms]) for row in rows)]
    return [[textwrap.wrap(text, room) or [""] for text, room in zip(row, sizes, strict=True)] for row, sizes in fields]


def blocks(table: ReportTable, widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """The columns side by side, as many at a time as fit, the keys first each time."""
    keys = list(range(table.keys))
    block = list(keys)
    for n in range(table.keys, len(widths)):
        if len(block) > len(keys) and sum(widths[k] + 2 for k in [*block, n]) - 2 > width:
            yield block
            block = list(keys)
        block.append(n)
    yield block
