"""What a formula says, from its text alone: no tensor is made.

    analyse(check(text, vocabulary))    -> Analysis: its repr is for people, `.data` for programs

For each stack: what each line reads and sets, its skips and branches; runs of layers that read alike; whether they are
pre-norm, post-norm or neither; what is carried, held and kept as history; the gain with silent branches; how far a
position sees and what tells positions apart; and warnings, each with a sound relative.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..language.graph import Architecture
from ..language.vocabulary import Vocabulary
from .budget import Budget
from .lines import spans
from .reading import Layers, StackReading, history_words, read_stack
from .warning_table import Relative, Warning
from .warnings import warnings_of

WIDTH = 100


@dataclass
class Analysis:
    """What a model says. Its `repr` is the page for a person, at most 100 columns wide; `.data` is plain data."""

    name: str
    stacks: list[StackReading]
    warnings: list[Warning]

    @property
    def data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "stacks": [stack.data for stack in self.stacks],
            "warnings": [warning.data for warning in self.warnings],
        }

    def __repr__(self) -> str:
        rows: list[str] = []
        for stack in self.stacks:
            rows += [*stack_rows(stack), ""]
        return "\n".join([*rows, *warning_rows(self.warnings)])


def analyse(architecture: Architecture, vocabulary: Vocabulary | None = None, budget: Budget | None = None) -> Analysis:
    """Analyse a checked model.

    vocabulary  the words that texts of sound relatives are checked with; by default those that the model uses, so that
                a relative which needs another word (a norm, say) is named by its gallery entry only
    budget      how much of it is looked at; it notes what is left out
    """
    budget = budget or Budget()
    readings = [read_stack(stack, architecture, budget) for stack in architecture.stacks]
    return Analysis(architecture.name, readings, warnings_of(readings, architecture, vocabulary, budget))


def wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """A text in rows of at most 100 columns."""
    indent = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=True, break_on_hyphens=False
    ) or [first.rstrip()]


def field(label: str, text: str) -> list[str]:
    """A row with its label on the left."""
    return wrapped(text, f"  {label:<16}")


def stack_rows(reading: StackReading) -> Iterator[str]:
    """The page of one stack."""
    stack = reading.stack
    title = f"stack {reading.title}: " if reading.title else ""
    sees = "causal" if stack.causal else "sees all positions"
    yield f"{title}{stack.depth} {'layer' if stack.depth == 1 else 'layers'} of width {reading.width:,}, {sees}"
    for group in reading.layers:
        yield from layer_rows(group, stack.depth)
    if stack.share is not None and len(set(stack.share)) < stack.depth:
        sets = len(set(stack.share))
        yield from field("weights", f"shared: {sets} {'set' if sets == 1 else 'sets'} for {stack.depth} layers")
    streams = [
        f"{name} (width {width:,})" if kind == "stream" else f"{name} ({kind})"
        for name, (kind, width) in reading.carried.items()
        if name not in reading.held
    ]
    yield from field("carried", ", ".join(streams) or "nothing by name")
    for name, layers in reading.held.items():
        yield from field("held", f"{name}, as layer{'s' if len(layers) > 1 else ''} {spans(layers)} made it")
    if reading.constants:
        yield from field("constant", f"{', '.join(reading.constants)}: set in `before`, the same for all layers")
    if reading.history:
        kept = [history_words(name, layers, stack.depth) for name, layers in reading.history.items()]
        yield from field("history", ", ".join(kept))
    if reading.alive != 1:
        yield from field("alive", f"{reading.alive} streams between layers, at most")
    if not reading.gains:
        yield from field("gain", "not predicted: no stream is carried on, layers read history")
    starting = " (gates and coefficients as they start)" if any(g.trunk.weighed for g in reading.layers) else ""
    for gain in reading.gains:
        of = f"gain of {gain.stream}" if len(reading.gains) > 1 else "gain"
        yield from field(of, f"{gain}{starting if gain.kind != 'unknown' else ''}")
    yield from field("sees", str(reading.reach))
    if reading.carry:
        yield from field(
            "segments", f"each sees the last {reading.carry:,} positions before it, through which no gradient flows"
        )
    yield from field("order", "; ".join(map(str, reading.order)) or "nothing")


def layer_rows(group: Layers, depth: int) -> Iterator[str]:
    """The page of some layers that read alike."""
    title = group.title if depth > 1 else "layer"
    if group.formula != "layer":
        title += f" ({group.formula})"
    alike = ""
    if len(group.numbers) > 1:
        alike = ", all equal" if group.equal else ", alike but for numbers"
    yield from wrapped(f"{title}{alike}: {group.norming.kind}, {group.norming.words}", "  ", "      ")
    for line in group.lines:
        yield from wrapped(line.text, "    ", "        ")
        yield from wrapped(str(line), "        ", "        ")


def warning_rows(warnings: list[Warning]) -> Iterator[str]:
    """The warnings, or that there is none."""
    strong = [w for w in warnings if not w.note]
    notes = [w for w in warnings if w.note]
    if not strong:
        yield "no warnings"
    for title, found in (("warnings", strong), ("notes", notes)):
        if not found:
            continue
        yield title
        for warning in found:
            yield from wrapped(f"{warning.code}: {warning.what}", "  ", "      ")
            if warning.line:
                yield from wrapped(f"{warning.where}: {warning.line}", "      ")
            yield from wrapped(warning.why, "      ")
            if warning.more:
                yield from wrapped(warning.more, "      ")
            for relative in warning.relatives:
                yield from relative_rows(relative)
            if warning.entries:
                yield from wrapped(f"in the gallery: {', '.join(warning.entries)}", "      ")


def relative_rows(relative: Relative) -> Iterator[str]:
    """A relative: the parts of the text that it changes, and what was done."""
    said = [relative.words] if relative.words else []
    said += [f"still {' and '.join(relative.left)}"] if relative.left else []
    said += [f"the wiring of {' and '.join(relative.names)}"] if relative.names else []
    rows = [f"{key}: {'; '.join(text.strip().splitlines())}" for key, text in relative.parts.items()]
    rows[-1] += f"  ({'; '.join(said)})" if said else ""
    first = f"      {'better' if relative.left else 'sound'}: "
    for n, row in enumerate(rows):
        yield from wrapped(row, " " * len(first) if n else first, "          ")
