"""What a study asks, and what papers say of it: beside what was measured here."""

from __future__ import annotations

from ...records import Results
from ..document import Cell, Item, Paragraph, ReportSection, ReportTable, section

SMALL = "What papers claim was mostly measured at other sizes and on other data; what was measured here stands above."


@section(35)
def claims(results: Results) -> ReportSection | None:
    if not results.question and not results.claims:
        return None
    rows = [[Cell(says), Cell(source)] for says, source in results.claims]
    items: list[Item] = [Paragraph(results.question, brief=True)] if results.question else []
    if rows:
        items += [Paragraph(SMALL), ReportTable(["what papers claim", "source"], rows)]
    return ReportSection("The question, and what papers claim", items)
