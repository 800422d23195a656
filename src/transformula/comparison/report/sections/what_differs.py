"""The question, what the answer cost, and in what each variant differs from the base: before what came out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ....errors import join_words
from ....plain import several
from ...matching import consequences
from ...records import Audit, Results
from ..document import Paragraph, ReportSection, section
from ..numbers import duration_in_words


@section(5)
def what_differs(results: Results) -> ReportSection:
    layers = [base for audit in results.audit for what, _, base in audit.differences if what == "layer"]
    shared = layers[0] if len(layers) > 1 and len({*layers}) == 1 else ""  # told once
    texts = [said(results, without_base(audit, shared)) for audit in results.audit]
    start = f"The layer of {results.base} is {shared}." if shared else f"Beside {results.base}:"
    asked = Paragraph(f"{question(results)} {spent(results)}", brief=True)
    if not texts:  # of a report of an earlier version
        return ReportSection("The question", [asked])
    what = Paragraph(start, brief=True, points=texts) if len(texts) > 1 else Paragraph(texts[0], brief=True)
    return ReportSection(f"What differs from {results.base}", [asked, what])


def question(results: Results) -> str:
    """That of the study; else 'Is rezero or post-norm better than pre-norm on book.txt, in bits per byte?'"""
    given = results.environment.get("given", {})
    names = [Path(str(source)).name for source in several(given.get("data"))]
    where = f" on {join_words(names, 'and')}" if names else ""
    others = join_words(results.names[1:], "or")
    return results.question or f"Is {others} better than {results.base}{where}, in {results.unit_of_differences}?"


def spent(results: Results) -> str:
    """How many runs there were, and their time."""
    tuned = sum(outcome.stage == "tune" for outcome in results.outcomes)
    seconds = sum(outcome.seconds for outcome in results.outcomes)
    confirmed = len(results.outcomes) - tuned
    if not results.outcomes:
        return "No run is made yet."
    before = f"{tuned} runs tuned the learning rates and " if tuned else ""
    return f"{before}{confirmed} runs confirmed: {duration_in_words(seconds)} of training."


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
