"""In what each variant differs from the base: what is compared, before what came out."""

from __future__ import annotations

from dataclasses import replace

from ...matching import consequences
from ...records import Audit, Results
from ..document import Paragraph, ReportSection, section


@section(5)
def what_differs(results: Results) -> ReportSection | None:
    layers = [base for audit in results.audit for what, _, base in audit.differences if what == "layer"]
    shared = layers[0] if len(layers) > 1 and len({*layers}) == 1 else ""  # told once
    texts = [said(results, without_base(audit, shared)) for audit in results.audit]
    start = f"The layer of {results.base} is {shared}." if shared else f"Beside {results.base}:"
    item = Paragraph(start, brief=True, points=texts) if len(texts) > 1 else Paragraph("".join(texts), brief=True)
    return ReportSection(f"What differs from {results.base}", [item]) if texts else None


def without_base(audit: Audit, layer: str) -> Audit:
    """An audit whose differences do not repeat the base's layer."""
    rows = [(what, own, "" if what == "layer" and base == layer else base) for what, own, base in audit.differences]
    return replace(audit, differences=rows)


def said(results: Results, audit: Audit) -> str:
    """A variant's differences, and what follows from them at each size: 'What follows: 25 % more parameters.'"""
    arms, variant = results.arms_by_key, audit.variant
    found = {size: consequences(arms[variant, size], arms[results.base, size]) for size in results.sizes}
    places = {size: results.at_size(size).replace(",", " at") for size in results.sizes}
    parts = [f"{places[size]}: {', '.join(these)}" for size, these in found.items() if these]
    return f"{variant} {audit.text(results.base)}." + (f" What follows{';'.join(parts)}." if parts else "")
