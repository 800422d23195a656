"""What the finders of warnings share: the lines of a stack's formulas, and relatives, checked and analysed again.

A relative is offered only if its text checks, if what it was made for holds when it is read again, and if the warning
that it answers is gone. Warnings that stay are named; where only the final norm lacks, it is added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ..language.check import check
from ..language.graph import Architecture, Section
from ..language.messages import FormulaError
from ..language.model_file import ModelText
from ..language.parser import parse
from ..language.source import Source
from ..language.vocabulary import Vocabulary
from . import rewrites
from .budget import Budget
from .canonical import WIRING_DEPTH, wiring_key_of
from .lines import text_of
from .reading import Layers, StackReading, read_stack
from .stream_scale import Gain
from .warning_table import Relative

LEFT_OUT = "some sound relatives of what is warned of: the model is too large to check its changed texts"

Codes = Callable[[StackReading, Architecture, Vocabulary], Sequence[str]]
"""The codes of the warnings (no notes) of a stack."""


def with_layer(text: ModelText, stack: int, formula: str, new: str) -> ModelText:
    """The model with another text for one formula of a stack."""
    return _with(text, stack, layers={**text.stacks[stack].layers, formula: Source(formula, new)})


def with_part(text: ModelText, stack: int, key: str, new: str) -> ModelText:
    """The model with another `before` or `after` of a stack."""
    return _with(text, stack, **{key: Source(key, new)})


def with_final_norm(text: ModelText, stack: int) -> ModelText:
    """The model with a norm at the end of a stack's `after`."""
    source = text.stacks[stack].after
    return with_part(text, stack, "after", "x = norm(x)" if source is None else f"{source.text.rstrip()}\nx = norm(x)")


def _with(text: ModelText, stack: int, **changes: Any) -> ModelText:
    stacks = list(text.stacks)
    stacks[stack] = dataclasses.replace(stacks[stack], **changes)
    return dataclasses.replace(text, stacks=tuple(stacks))


class Adviser:
    """One stack of a model, for the finders. `codes`: the warnings of a stack, None where no relatives are wanted."""

    def __init__(
        self,
        reading: StackReading,
        architecture: Architecture,
        vocabulary: Vocabulary,
        codes: Codes | None,
        budget: Budget,
    ) -> None:
        self.budget, self.size = budget, sum(len(section.values) for section in architecture.sections())
        layers = [section for stack in architecture.stacks for section in stack.layers]
        self.wired = WIRING_DEPTH * max(len(section.values) for section in layers)
        self.reading, self.architecture, self.vocabulary, self.codes = reading, architecture, vocabulary, codes
        self.text: ModelText = architecture.text
        self.stack = reading.stack
        self.index = architecture.stacks.index(reading.stack)
        self.prefix = f"{reading.title}, " if reading.title else ""

    def section(self, group: Layers) -> Section:
        """The first of some layers that read alike."""
        return self.stack.layers[group.numbers[0] - 1]

    def formula(self, group: Layers) -> rewrites.Formula:
        section = self.section(group)
        return rewrites.formula_of(section, parse(section.lines[0][0].source))

    def where(self, group: Layers, line: int | None) -> tuple[str, str]:
        """A person's name of a line (from 0) of a group of layers, and its text."""
        section = self.section(group)
        if group.formula != "layer":
            name = group.formula
        else:
            same = all(layers.formula == group.formula for layers in self.reading.layers)
            name = "layer" if same else group.title
        if line is None or line >= len(section.lines):
            return f"{self.prefix}{name}", ""
        return f"{self.prefix}{name}, line {line + 1}", text_of(section.lines[line][0])

    def gain(self, stream: str) -> Gain | None:
        """The gain of a stream."""
        return next((g for g in self.reading.gains if g.stream == stream), None)

    def others(self, *names: str) -> tuple[str, ...]:
        """Names of gallery entries without the model's own."""
        return tuple(name for name in names if name != self.architecture.name)

    # Relatives.

    def read_again(self, text: ModelText) -> tuple[StackReading, Architecture] | None:
        """A changed text, checked and read; None if it is no formula any more, or the model is too large for that."""
        if not self.budget.spend("advised", self.size, LEFT_OUT):
            return None
        try:
            changed = check(text, self.vocabulary)
        except FormulaError:
            return None
        return read_stack(changed.stacks[self.index], changed, Budget()), changed

    def in_layer(
        self, code: str, group: Layers, new: str, holds: Callable[[StackReading], bool], words: str
    ) -> list[Relative]:
        """The relative with another text for the layers of a group."""
        return self.relative(code, with_layer(self.text, self.index, group.formula, new), holds, words)

    def in_part(
        self, code: str, key: str, new: str, holds: Callable[[StackReading], bool], words: str = ""
    ) -> list[Relative]:
        """The relative with another `before` or `after`."""
        return self.relative(code, with_part(self.text, self.index, key, new), holds, words)

    def relative(self, code: str, made: ModelText, holds: Callable[[StackReading], bool], words: str) -> list[Relative]:
        """The relative with this text, if it checks, what should hold does, and the warning is gone."""
        left = self.left(made, holds)
        if left is not None and "no-final-norm" in left and code != "no-final-norm":
            ended = with_final_norm(made, self.index)
            again = self.left(ended, holds)
            if again is not None and len(again) < len(left):
                made, left = ended, again
        changed = self.changed(made)
        if left is None or code in left or not changed:  # a text is no relative of itself
            return []
        key = wiring_key_of(made, self.vocabulary) if self.budget.spend("advised", self.wired, LEFT_OUT) else ""
        return [Relative(changed, words, left, made, key)]

    def left(self, made: ModelText, holds: Callable[[StackReading], bool]) -> tuple[str, ...] | None:
        """The warnings of a changed text; None if it does not check, or what should hold does not."""
        again = self.read_again(made) if self.codes is not None else None
        if again is None or self.codes is None or not holds(again[0]):
            return None
        return tuple(dict.fromkeys(self.codes(*again, self.vocabulary)))

    def changed(self, made: ModelText) -> dict[str, str]:
        """The parts of this stack that differ from the user's text."""
        mine, other = self.text.stacks[self.index], made.stacks[self.index]
        pairs = [("before", mine.before, other.before)]
        for name, source in other.layers.items():
            pairs.append((name if len(other.layers) > 1 else "layer", mine.layers.get(name), source))
        pairs.append(("after", mine.after, other.after))
        return {
            f"{self.prefix}{key}": new.text for key, old, new in pairs if new and (old is None or old.text != new.text)
        }


def calm(gain: Gain) -> bool:
    """Whether a stream keeps its size, more or less."""
    return gain.growth is not None and 0.5 < gain.growth < 2


def settled(stream: str, kind: str = "", formula: str = "") -> Callable[[StackReading], bool]:
    """Whether, read again, the stream keeps its size and, if said, the layers of a formula are of that kind."""

    def holds(again: StackReading) -> bool:
        gain = next((g for g in again.gains if g.stream == stream), None)
        kinds = {g.norming.kind for g in again.layers if g.formula == formula}
        return gain is not None and calm(gain) and (not kind or kinds == {kind})

    return holds
