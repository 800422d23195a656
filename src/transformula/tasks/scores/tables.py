"""Parts of a report, and tables in plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class ReportPart(Protocol):
    """What a report has beside its scores, such as a table of mistakes: `str` of it is for people, `data` for programs;
    `svg` is its picture, None for none.
    """

    @property
    def name(self) -> str: ...

    @property
    def data(self) -> Any: ...

    @property
    def svg(self) -> str | None: ...


def table(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows as lines, their columns as wide as they need; the first `left` columns begin, the others end alike."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
