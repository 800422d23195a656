"""What papers say of what a study asks: beside what was measured here."""

from __future__ import annotations

from ...records import Results
from ..document import Cell, Item, Paragraph, ReportSection, ReportTable, section

SMALL = "What papers claim was mostly measured at other sizes and on other data; what was measured here stands above."


@section(35)
def claims(results: Results) -> ReportSection | None:
    rows = [[Cell(says), Cell(source)] for says, source in results.claims]
    items: list[Item] = [Paragraph(SMALL), ReportTable(["what papers claim", "source"], rows)]
    return ReportSection("What papers claim", items) if rows else None
