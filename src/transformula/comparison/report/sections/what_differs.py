"""In what each variant differs from the base: what is compared, before what came out."""

from __future__ import annotations

from ...matching import consequences
from ...records import Results
from ..document import Paragraph, ReportSection, section


@section(5)
def what_differs(results: Results) -> ReportSection | None:
    items = [Paragraph(said(results, audit.variant, audit.text(results.base)), brief=True) for audit in results.audit]
    return ReportSection(f"What differs from {results.base}", items) if items else None


def said(results: Results, variant: str, text: str) -> str:
    """A variant's differences, and what follows from them at each size: 'What follows: 25 % more parameters.'"""
    arms = results.arms_by_key
    found = {size: consequences(arms[variant, size], arms[results.base, size]) for size in results.sizes}
    places = {size: results.at_size(size).replace(",", " at") for size in results.sizes}
    parts = [f"{places[size]}: {', '.join(these)}" for size, these in found.items() if these]
    return f"{variant} {text}." + (f" What follows{';'.join(parts)}." if parts else "")
