"""Tables whose rows are arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..numbers import NOTHING
from ..records import Results
from .document import Cell, ReportTable

Row = Sequence[Cell]


def arm_table(
    results: Results, columns: Sequence[str], rows: Sequence[Row], brief: bool = False, terminal: Sequence[str] = ()
) -> ReportTable:
    """A table whose rows begin with a variant and a size, which is left out where there is only one.

    terminal  the columns that a terminal shows, where it shows fewer. Columns without a number are left out.
    """
    several = len(results.sizes) > 1
    filled = [n for n in range(len(columns)) if any(row[n].text != NOTHING for row in rows)]

    def table(names: Sequence[str], **more: Any) -> ReportTable:
        chosen = [n for n in filled if columns[n] in names and (several or columns[n] != "size")]
        cells = [[row[n] for n in chosen] for row in rows]
        return ReportTable([columns[n] for n in chosen], cells, 2 if several else 1, **more)

    return table(columns, brief=brief, terminal=table(terminal) if terminal else None)
