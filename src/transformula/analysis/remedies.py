"""Remedies: texts made from the user's own, checked and analyzed again before they are offered.

A remedy is offered only if its text checks, if what it was made for holds when it is analyzed again, and if the warning
that it answers is gone. Warnings that stay are named; where only the final norm lacks, it is added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ..language.check import check
from ..language.graph import Architecture, Section
from ..language.messages import FormulaError
from ..language.model_file import ModelText
from ..language.parser import parse
from ..language.source import Source
from ..language.vocabulary import Vocabulary
from .budget import Budget
from .canonical import WIRING_DEPTH, check_for_wiring, wiring_key
from .initial_scale import StreamScale
from .lines import spans, text_of
from .rewrites import LayerFormula, formula_of
from .stack_analysis import LayerGroup, StackAnalysis, analyze_stack
from .warning_table import Remedy, Warning

LEFT_OUT = "some remedies of what is warned of: the model is too large to check its changed texts"

Codes = Callable[[StackAnalysis, Architecture, Vocabulary], Sequence[str]]
"""The codes of the warnings (no notes) of a stack."""

Holds = Callable[[StackAnalysis], bool]
"""Whether a changed stack is what its text was changed for."""

T = TypeVar("T")


def with_layer(text: ModelText, stack: int, formula: str, new: str) -> ModelText:
    """The model with another text for one formula of a stack."""
    return _with(text, stack, layers={**text.stacks[stack].layers, formula: Source(formula, new)})


def with_part(text: ModelText, stack: int, key: str, new: str) -> ModelText:
    """The model with another `before` or `after` of a stack."""
    return _with(text, stack, **{key: Source(key, new)})


def final_norm(text: ModelText, stack: int) -> str:
    """A stack's `after` with a norm at its end."""
    source = text.stacks[stack].after
    return "x = norm(x)" if source is None else f"{source.text.rstrip()}\nx = norm(x)"


def _with(text: ModelText, stack: int, **changes: Any) -> ModelText:
    stacks = list(text.stacks)
    stacks[stack] = dataclasses.replace(stacks[stack], **changes)
    return dataclasses.replace(text, stacks=tuple(stacks))


class Adviser:
    """One stack of a model, for the finders of warnings. `codes`: those of a stack; None: no remedies are wanted."""

    def __init__(
        self,
        analysis: StackAnalysis,
        architecture: Architecture,
        vocabulary: Vocabulary,
        codes: Codes | None,
        budget: Budget,
    ) -> None:
        self.budget, self.size = budget, sum(len(section.values) for section in architecture.sections())
        layers = [section for stack in architecture.stacks for section in stack.layers]
        self.wired = WIRING_DEPTH * max(len(section.values) for section in layers)
        self.analysis, self.architecture, self.vocabulary, self.codes = analysis, architecture, vocabulary, codes
        self.text: ModelText = architecture.text
        self.stack = analysis.stack
        self.index = architecture.stacks.index(analysis.stack)
        self.prefix = f"{analysis.title}, " if analysis.title else ""

    def section(self, group: LayerGroup) -> Section:
        """The first of some layers that read alike."""
        return self.stack.layers[group.numbers[0] - 1]

    def formula(self, group: LayerGroup) -> LayerFormula:
        section = self.section(group)
        return formula_of(section, parse(section.lines[0][0].source))

    def faulty(self, fault: Callable[[LayerGroup], list[T]]) -> Iterator[tuple[LayerGroup, list[T], str]]:
        """The first layers of each formula that have a fault, what the fault is, and ' in layers 1-3', those of the
        formula that have it; '' if these are all layers."""
        done: set[str] = set()
        for group in self.analysis.layers:
            faults = fault(group)
            if faults and group.formula not in done:
                done.add(group.formula)
                alike = [g for g in self.analysis.layers if g.formula == group.formula and fault(g)]
                numbers = sorted(n for g in alike for n in g.numbers)
                where = f" in layer{'s' if len(numbers) > 1 else ''} {spans(numbers)}"
                yield group, faults, "" if len(numbers) == self.stack.depth else where

    def where(self, group: LayerGroup, line: int | None) -> tuple[str, str]:
        """A person's name of a line (from 0) of a group of layers, and its text."""
        section = self.section(group)
        if group.formula != "layer":
            name = group.formula
        else:
            same = all(layers.formula == group.formula for layers in self.analysis.layers)
            name = "layer" if same else group.title
        if line is None or line >= len(section.lines):
            return f"{self.prefix}{name}", ""
        return f"{self.prefix}{name}, line {line + 1}", text_of(section.lines[line][0])

    def warning(
        self,
        code: str,
        what: str,
        where: tuple[str, str],
        remedies: Sequence[Remedy] = (),
        entries: Sequence[str] = (),
        more: str = "",
        note: bool = False,
    ) -> Warning:
        """A warning. `entries` are names of the gallery, of which the model's own is left out."""
        others = tuple(name for name in entries if name != self.architecture.name)
        return Warning(code, what, *where, tuple(remedies), others, more, note)

    # Remedies.

    def analyzed(self, text: ModelText) -> tuple[StackAnalysis, Architecture] | None:
        """A changed text, checked and analyzed; None if it is no formula any more, or the model is too large."""
        if not self.budget.spend("advised", self.size, LEFT_OUT):
            return None
        try:
            changed = check(text, self.vocabulary)
        except FormulaError:
            return None
        return analyze_stack(changed.stacks[self.index], changed, Budget()), changed

    def in_layer(self, code: str, group: LayerGroup, new: str, holds: Holds, words: str) -> list[Remedy]:
        """The remedy with another text for the layers of a group."""
        return self.remedy(code, with_layer(self.text, self.index, group.formula, new), holds, words)

    def in_part(self, code: str, key: str, new: str, holds: Holds, words: str = "") -> list[Remedy]:
        """The remedy with another `before` or `after`."""
        return self.remedy(code, with_part(self.text, self.index, key, new), holds, words)

    def remedy(self, code: str, text: ModelText, holds: Holds, words: str) -> list[Remedy]:
        """The remedy with this text, if it checks, what should hold does, and the warning is gone."""
        left = self.left(text, holds)
        if left is not None and "no-final-norm" in left and code != "no-final-norm":
            ended = with_part(text, self.index, "after", final_norm(text, self.index))
            left_then = self.left(ended, holds)
            if left_then is not None and len(left_then) < len(left):
                text, left = ended, left_then
        changed = self.changed(text)
        if left is None or code in left or not changed:  # a text is no remedy of itself
            return []
        checked = self.budget.spend("advised", self.wired, LEFT_OUT)
        key = wiring_key(check_for_wiring(text, self.vocabulary)) if checked else ""
        return [Remedy(changed, words, left, text, key)]

    def left(self, text: ModelText, holds: Holds) -> tuple[str, ...] | None:
        """The warnings of a changed text; None if it does not check, or what should hold does not."""
        again = self.analyzed(text) if self.codes is not None else None
        if again is None or self.codes is None or not holds(again[0]):
            return None
        return tuple(dict.fromkeys(self.codes(*again, self.vocabulary)))

    def changed(self, text: ModelText) -> dict[str, str]:
        """The parts of this stack that differ from the user's text."""
        mine, other = self.text.stacks[self.index], text.stacks[self.index]
        pairs = [("before", mine.before, other.before)]
        for name, source in other.layers.items():
            pairs.append((name if len(other.layers) > 1 else "layer", mine.layers.get(name), source))
        pairs.append(("after", mine.after, other.after))
        return {
            f"{self.prefix}{key}": new.text for key, old, new in pairs if new and (old is None or old.text != new.text)
        }


def steady(scale: StreamScale) -> bool:
    """Whether a stream keeps its size, more or less."""
    return scale.growth is not None and 0.5 < scale.growth < 2


def settled(stream: str, kind: str = "", formula: str = "") -> Holds:
    """Whether, analyzed again, the stream keeps its size and, if said, the layers of a formula are of that kind."""

    def holds(again: StackAnalysis) -> bool:
        scale = again.scale_of(stream)
        kinds = {g.norms.kind for g in again.layers if g.formula == formula}
        return scale is not None and steady(scale) and (not kind or kinds == {kind})

    return holds
