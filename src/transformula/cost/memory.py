"""The memory of a step of training, in bytes by part, as every estimate has it: that before the first step, which
`training/memory.py` fills in as it follows a step without making its numbers, and those of plans, of comparisons, of
layouts and of what fits, which count parameters and ask `of_parameters`.

    total of a moment = weights + masters + buffers + averages + optimizer + gradients + activations + loss + workspace
    peak              = the larger of two moments: while gradients are made, and while the weights are changed

Parts stay apart because a layout over several devices divides them differently: by parameters (weights, masters,
averages, optimizer, gradients), by rows and positions (activations, loss), or not at all (buffers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ..plain import TextPage
from .words import bytes_in_words

GRADIENTS, UPDATE = "gradients", "update"
FLOAT = 4  # bytes of a number in float32


@dataclass(frozen=True)
class Moment:
    """What is held at one moment, in bytes.

    weights      the parameters of the model that runs; where these are bfloat16, 2 bytes each
    masters      the float32 parameters that the optimizer changes, where the weights are another copy
    buffers      the model's tensors that are no parameters
    averages     a running average of the weights
    optimizer    what the optimizer keeps of each parameter between steps
    gradients    those of the weights, or of the masters, that are there at the moment
    activations  what the forward pass has left for the backward pass and is not let go yet
    loss         what the model's output and the loss have made: logits, and their gradient
    workspace    all else: what one operation hands to the next
    """

    weights: int = 0
    masters: int = 0
    buffers: int = 0
    averages: int = 0
    optimizer: int = 0
    gradients: int = 0
    activations: int = 0
    loss: int = 0
    workspace: int = 0

    @property
    def total(self) -> int:
        return sum(self.data.values())

    def of_rank(self, ranks: int) -> Moment:
        """With what belongs to the parameters divided among ranks."""
        by_parameters = ("weights", "masters", "averages", "optimizer", "gradients")
        return replace(self, **{name: -(-size // ranks) for name, size in self.data.items() if name in by_parameters})

    @property
    def data(self) -> dict[str, int]:
        return {field.name: int(getattr(self, field.name)) for field in fields(self)}


def of_parameters(numbers: Mapping[str, float], keeps: Mapping[str, int], averaged: bool = False) -> Moment:
    """What belongs to parameters that are trained in float32: they, their gradients, and what is kept of them.

    numbers   how many they have, by the role of the parameter
    keeps     how many the optimizer keeps for each of these, by role
    averaged  a running average of them is made
    """
    size = round(FLOAT * sum(numbers.values()))
    kept = round(FLOAT * sum(keeps[role] * count for role, count in numbers.items()))
    return Moment(weights=size, averages=size * averaged, optimizer=kept, gradients=size)


@dataclass(frozen=True)
class LineMemory:
    """What one line of the formula keeps for the backward pass: made there and held when the forward pass ends.

    section  "layer 3", "before", ...; of several stacks with the stack's name
    line     the line's text, or "" for what stands in no formula
    """

    section: str
    line: str
    bytes: int


@dataclass(frozen=True)
class MemoryEstimate(TextPage):
    """The memory of a step of training. Its `repr` is the table, `.data` the same as plain data.

    moments      "gradients" and "update": what is held where each of them holds most
    activations  what the forward pass leaves for the backward pass, in bytes, of one part of a batch
    logits       what output and loss hold together at most, in bytes
    lines        the activations by line of the formula, in order
    assumed      rows, context, precision, optimizer, ...: what the estimate is for
    besides      what the process holds besides the model as the estimate is made, in bytes: libraries, data; 0 if that
                 is not known, or if the step is made on another device
    """

    moments: Mapping[str, Moment]
    activations: int
    logits: int
    lines: tuple[LineMemory, ...]
    assumed: Mapping[str, Any]
    besides: int = 0

    @property
    def peak(self) -> int:
        """Bytes that are held at once, at most."""
        return max(moment.total for moment in self.moments.values())

    def of_rank(self, ranks: int) -> MemoryEstimate:
        """That of one of several ranks that share what belongs to the parameters; the rest is as large on each.

        Not counted: the weights of the layer that a rank has gathered at the moment.
        """
        moments = {name: moment.of_rank(ranks) for name, moment in self.moments.items()}
        return replace(self, moments=moments, assumed={**self.assumed, "ranks": ranks}) if ranks > 1 else self

    @property
    def at(self) -> Moment:
        """The moment of the peak."""
        return max(self.moments.values(), key=lambda moment: moment.total)

    @property
    def kept(self) -> int:
        """What is there before, during and after each step, in bytes: all but gradients and what a step makes."""
        at = self.moments[GRADIENTS]
        return at.weights + at.masters + at.buffers + at.averages + at.optimizer

    @property
    def sentence(self) -> str:
        """One line: the peak and its largest parts."""
        parts = sorted(self.at.data.items(), key=lambda part: -part[1])
        largest = ", ".join(f"{name} {bytes_in_words(size)}" for name, size in parts[:4] if size)
        whole = (
            f"; with what the process holds besides, {bytes_in_words(self.peak + self.besides)}" if self.besides else ""
        )
        of_rank = ", on each rank" if self.assumed.get("ranks") else ""
        return f"memory of a step{of_rank}: about {bytes_in_words(self.peak)} ({largest}){whole}"

    @property
    def data(self) -> dict[str, Any]:
        """Plain data: `peak`, `besides`, `moments`, `activations`, `logits`, `lines`, `assumed`."""
        return {
            "peak": self.peak,
            "besides": self.besides,
            "moments": {name: moment.data for name, moment in self.moments.items()},
            "activations": self.activations,
            "logits": self.logits,
            "lines": [{"section": one.section, "line": one.line, "bytes": one.bytes} for one in self.lines],
            "assumed": dict(self.assumed),
        }

    def __repr__(self) -> str:
        rows = [f"{'':<14}{GRADIENTS:>12}{UPDATE:>12}"]
        for name in self.at.data:
            sizes = [self.moments[key].data[name] for key in (GRADIENTS, UPDATE)]
            rows.append(f"{name:<14}" + "".join(f"{bytes_in_words(size) if size else '':>12}" for size in sizes))
        totals = [bytes_in_words(self.moments[key].total) for key in (GRADIENTS, UPDATE)]
        rows.append(f"{'together':<14}{totals[0]:>12}{totals[1]:>12}")
        return "\n".join([self.sentence, "", *rows])
