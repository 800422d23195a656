"""Tables whose rows are arms."""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Results
from .document import Cell, ReportTable
from .numbers import NOTHING
from .selection import sizes_of

Row = Sequence[Cell]


def arm_table(
    results: Results, columns: Sequence[str], rows: Sequence[Row], brief: bool = False, terminal: Sequence[str] = ()
) -> ReportTable:
    """A table whose rows begin with a variant and a size, which is left out where there is only one.

    terminal  the columns that a terminal shows, where it shows fewer. Columns without a number are left out.
    """
    several = len(sizes_of(results)) > 1
    told = [n for n in range(len(columns)) if any(row[n].text != NOTHING for row in rows)]
    kept = [n for n in told if several or columns[n] != "size"]
    short = [n for n in kept if columns[n] in terminal]
    keys = 2 if several else 1
    few = ReportTable(*picked(columns, rows, short), keys) if short else None
    return ReportTable(*picked(columns, rows, kept), keys, brief, few)


def picked(columns: Sequence[str], rows: Sequence[Row], kept: Sequence[int]) -> tuple[list[str], list[list[Cell]]]:
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]
