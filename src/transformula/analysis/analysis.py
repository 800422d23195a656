"""What a formula says, from its text alone: no tensor is made.

    analyze(check(text, vocabulary))    -> Analysis: its repr is for people, `.data` for programs

For each stack: what each line reads and sets, its skips and branches; runs of layers that read alike; whether they are
pre-norm, post-norm or neither; what is carried, held and kept as history; the initial scale of the residual path; the
receptive field and the positional encodings; and warnings, each with a remedy.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from ..language.graph import Architecture
from ..language.vocabulary import Vocabulary
from .budget import Budget
from .lines import spans
from .plain_data import keys
from .remedies import warnings_of
from .stack_analysis import LayerGroup, StackAnalysis, analyze_stack, history_words
from .warning_table import Remedy, Warning

WIDTH = 100


@dataclass
class Analysis:
    """What a model says. Its `repr` is the page for a person, at most 100 columns wide; `.data` is plain data."""

    name: str
    stacks: list[StackAnalysis]
    warnings: list[Warning]

    data = keys("name stacks warnings")

    def __repr__(self) -> str:
        rows = [row for stack in self.stacks for row in (*stack_rows(stack), "")]
        return "\n".join([*rows, *warning_rows(self.warnings)])


def analyze(architecture: Architecture, vocabulary: Vocabulary | None = None, budget: Budget | None = None) -> Analysis:
    """Analyze a checked model.

    vocabulary  the words that texts of remedies are checked with; by default those that the model uses, so that a
                remedy which needs another word (a norm, say) is named by its gallery entry only
    budget      how much of it is looked at; it notes what is left out
    """
    budget = budget or Budget()
    stacks = [analyze_stack(stack, architecture, budget) for stack in architecture.stacks]
    return Analysis(architecture.name, stacks, warnings_of(stacks, vocabulary, budget))


def wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """A text in rows of at most 100 columns."""
    indent = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=True, break_on_hyphens=False
    ) or [first.rstrip()]


def stack_rows(analysis: StackAnalysis) -> Iterator[str]:
    stack, scales, layers = analysis.stack, analysis.stream_scales, analysis.layers
    title = f"stack {analysis.title}: " if analysis.title else ""
    sees = "causal" if stack.causal else "sees all positions"
    yield f"{title}{stack.depth} {'layer' if stack.depth == 1 else 'layers'} of width {analysis.width:,}, {sees}"
    for group in layers:
        yield from layer_rows(group, stack.depth)
    sets = len(set(stack.share)) if stack.share is not None else stack.depth
    shared = f"shared: {sets} {'set' if sets == 1 else 'sets'} for {stack.depth} layers"
    carried = {name: what for name, what in analysis.carried.items() if name not in analysis.held}
    sorts = {name: f"width {width:,}" if kind == "stream" else kind for name, (kind, width) in carried.items()}
    held = {n: f"layer{'s' if len(at) > 1 else ''} {spans(at)}" for n, at in analysis.held.items()}
    constants = f"{', '.join(analysis.constants)}: set in `before`, the same for all layers"
    kept = [history_words(name, numbers, stack.depth) for name, numbers in analysis.history.items()]
    starting = " (gates and coefficients as they start)" if any(g.path.weighed for g in layers) else ""
    sizes = [f"{scale}{starting if scale.kind != 'unknown' else ''}" for scale in scales]
    if len(scales) > 1:
        sizes = [f"{scale.stream}: {size}" for scale, size in zip(scales, sizes, strict=True)]
    segments = f"each sees the last {analysis.carry:,} positions before it, through which no gradient flows"
    fields = [
        ("weights", shared if sets < stack.depth else ""),
        ("carried", ", ".join(f"{name} ({sort})" for name, sort in sorts.items()) or "nothing by name"),
        *(("held", f"{name}, as {at} made it") for name, at in held.items()),
        ("constant", constants if analysis.constants else ""),
        ("history", ", ".join(kept)),
        ("alive", f"{analysis.alive} streams between layers, at most" if analysis.alive != 1 else ""),
        *(("initial scale", size) for size in sizes or ["not predicted: no stream is carried on, layers read history"]),
        ("receptive field", str(analysis.receptive_field)),
        ("segments", segments if analysis.carry else ""),
        ("positions", "; ".join(map(str, analysis.positional_encodings)) or "nothing tells them apart"),
    ]
    for label, text in fields:
        yield from wrapped(text, f"  {label:<17}") if text else ()


def layer_rows(group: LayerGroup, depth: int) -> Iterator[str]:
    title = group.title if depth > 1 else "layer"
    name = f" ({group.formula})" if group.formula != "layer" else ""
    equal = ", all equal" if group.equal else ", alike but for numbers"
    alike = equal if len(group.numbers) > 1 else ""
    yield from wrapped(f"{title}{name}{alike}: {group.norms.kind}, {group.norms.words}", "  ", "      ")
    for line in group.lines:
        yield from wrapped(line.text, "    ", "        ")
        yield from wrapped(str(line), "        ", "        ")


def warning_rows(warnings: list[Warning]) -> Iterator[str]:
    if all(warning.note for warning in warnings):
        yield "no warnings"
    for title, note in (("warnings", False), ("notes", True)):
        alike = [warning for warning in warnings if warning.note == note]
        if alike:
            yield title
        for warning in alike:
            yield from wrapped(f"{warning.code}: {warning.what}", "  ", "      ")
            line = f"{warning.where}: {warning.line}" if warning.line else ""
            for text in filter(None, (line, warning.why, warning.more)):
                yield from wrapped(text, "      ")
            for remedy in warning.remedies:
                yield from remedy_rows(remedy)
            if warning.entries:
                yield from wrapped(f"in the gallery: {', '.join(warning.entries)}", "      ")


def remedy_rows(remedy: Remedy) -> Iterator[str]:
    left = f"still {' and '.join(remedy.left)}" if remedy.left else ""
    wiring = f"the wiring of {' and '.join(remedy.names)}" if remedy.names else ""
    words = "; ".join(filter(None, (remedy.words, left, wiring)))
    rows = [f"{key}: {'; '.join(text.strip().splitlines())}" for key, text in remedy.parts.items()]
    rows[-1] += f"  ({words})" if words else ""
    first = f"      {'better' if remedy.left else 'sound'}: "
    for n, row in enumerate(rows):
        yield from wrapped(row, " " * len(first) if n else first, "          ")
