"""Gain with branches silent: how large the streams leave each layer if every sublayer yields 0; see `silence.py`.

A name whose size doubles when that of what enters does compounds from layer to layer; one whose size does not was
normed on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..language.graph import Stack
from .initial_scale import Silence, copies_in


def run_silent(stack: Stack, scale: float = 1.0) -> tuple[Silence, list[dict[str, float | None]]]:
    """The layers of a stack with silent branches: the run, and the size of every name on leaving each layer."""
    run = Silence(scale, copies_in(stack))
    sizes: list[dict[str, float | None]] = []
    for section in stack.layers:
        run.section(section)
        for name, value in run.state.items():
            run.past[name, section.number] = value
        sizes.append({name: run.directions.size(value) for name, value in run.state.items()})
    return run, sizes


@dataclass(frozen=True)
class Gain:
    """What becomes of one stream with silent branches.

    kind    "compounds": what leaves the last layer is `factor` times what entered the first (1: nothing lost or gained)
            "normed": a norm stands on the stream, nothing compounds: it leaves layers with `sizes`
            "zero": no skip, nothing is left
            "mixed": neither a multiple of what entered nor independent of it; `sizes` are for what enters with size 1
            "unknown": `why`
    factor  over all layers, None unless it compounds (0: zero)
    sizes   on leaving each layer, for what enters with size 1; None where not known
    """

    stream: str
    kind: str
    factor: float | None
    sizes: tuple[float | None, ...]
    why: str = ""

    @property
    def layer_factor(self) -> float | None:
        """The factor of one layer, where all have the same; None otherwise."""
        if self.kind != "compounds":
            return None
        sizes = [1.0, *(s for s in self.sizes if s is not None)]
        factors = {float(f"{b / a:.9g}") for a, b in zip(sizes, sizes[1:], strict=False) if a}
        return factors.pop() if len(factors) == 1 and len(sizes) == len(self.sizes) + 1 else None

    @property
    def size(self) -> float | None:
        """The size with which it leaves every layer, if one, else the last."""
        return self.sizes[-1] if self.sizes else None

    @property
    def growth(self) -> float | None:
        """How many times larger it is at the end than after its first norm, or than what entered; None if unknown."""
        if self.kind in ("compounds", "mixed"):
            return self.size
        if self.kind == "normed" and self.sizes[0] and self.size is not None:
            return self.size / self.sizes[0]
        return None

    @property
    def data(self) -> dict[str, object]:
        return {
            "stream": self.stream,
            "kind": self.kind,
            "factor": finite(self.factor),
            "layer_factor": finite(self.layer_factor),
            "size": finite(self.size),
            "sizes": [finite(size) for size in self.sizes],
            "why": self.why,
        }

    def __str__(self) -> str:
        depth, size = len(self.sizes), self.size
        match self.kind:
            case "unknown":
                return f"not predicted: {self.why}"
            case "zero":
                return "0, nothing passes but through sublayers"
            case "normed" if size is not None:
                known = [s for s in self.sizes if s is not None]
                if len(known) == depth and max(known) - min(known) <= 1e-9 * max(known):
                    return f"nothing compounds: it leaves each layer with size {number(size)}"
                first = "?" if self.sizes[0] is None else number(self.sizes[0])
                return f"normed on the way: it leaves layer 1 with size {first}, layer {depth} with size {number(size)}"
            case "mixed" if size is not None:
                return f"it enters with size 1 and leaves layer {depth} with size {number(size)}"
            case "compounds" if self.factor is not None:
                each = self.layer_factor
                if each == 1:
                    return "1, it leaves the last layer as it entered the first"
                if each is None or depth == 1:
                    return f"{number(self.factor)} over {depth} layers" if depth > 1 else number(self.factor)
                return f"{number(each)} a layer, {number(self.factor)} after {depth}"
        return f"not predicted: {self.why or 'it depends on the values'}"


def finite(value: float | None) -> float | None:
    """The number, None where it is not finite: JSON has no word for that."""
    return value if value is not None and math.isfinite(value) else None


def number(value: float) -> str:
    """A number as a person reads it: 4,096, 0.218, 1.3e+06."""
    if not math.isfinite(value):
        return "more than a number holds"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:.4g}"


def gain_of(name: str, one: Sequence[float | None], two: Sequence[float | None], why: str) -> Gain:
    """The gain of a stream, from its sizes when what enters has size 1, and when it has size 2."""
    first, second = one[-1], two[-1]
    sizes = tuple(one)
    if first is None or second is None:
        return Gain(name, "unknown", None, sizes, why)
    if first == 0:
        return Gain(name, "zero", 0.0, sizes)
    if math.isclose(second, 2 * first, rel_tol=1e-9):
        return Gain(name, "compounds", first, sizes)
    if math.isclose(second, first, rel_tol=1e-9):
        return Gain(name, "normed", None, sizes)
    return Gain(name, "mixed", None, sizes)
