"""With what it was made: versions, machine, data, and the settings of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...records import Results
from ..document import Cell, Item, Paragraph, ReportSection, ReportTable, section


@section(150)
def environment(results: Results) -> ReportSection | None:
    items: list[Item] = []
    for label, values in (("Settings", results.settings), ("Made with", results.environment)):
        rows = [[Cell(key), Cell(text)] for key, text in flat(values)]
        items += [Paragraph(f"{label}:"), ReportTable(("key", "value"), rows)] if rows else []
    return ReportSection("Settings and environment", items) if items else None


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """('machine threads', '2') of nested values."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key} ")
        elif value is not None:
            yield f"{before}{key}", ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


@section(160)
def notes(results: Results) -> ReportSection | None:
    """What else there is to know."""
    items = [Paragraph(note, brief=True) for note in results.notes]
    return ReportSection("Notes", items) if items else None
