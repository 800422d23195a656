"""Sizes of model, each about `size_ratio` times the FLOPs of the one before.

Width and depth grow together, so that their ratio stays near what it was, and the tokens grow with the FLOPs of a
token: tokens per parameter stay equal, so that no size is trained further than another, as a fit of loss over compute
asks for (Hoffmann et al. 2022, 2203.15556; Porian et al. 2024, 2406.19146). For a ratio of 3 a token then costs sqrt(3)
times as much, and there are sqrt(3) times as many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..errors import InputError
from ..language.graph import Architecture

NAMES = {1: ["only"], 2: ["small", "large"], 3: ["small", "medium", "large"]}
FORM_WEIGHT = 0.25  # how much a change of width over depth counts beside a miss of the FLOPs
LARGEST_FACTOR = 3.0  # a size is at most so many times as wide, and as deep, as the one before


@dataclass(frozen=True)
class Shape:
    """The numbers by which a model is large or small."""

    depth: int
    width: int
    heads: int

    @property
    def numbers(self) -> dict[str, int]:
        return {"depth": self.depth, "width": self.width, "heads": self.heads}

    def __str__(self) -> str:
        return f"depth {self.depth}, width {self.width}, {self.heads} heads"


SHAPES = tuple(
    Shape(*numbers)
    for numbers in (
        (2, 32, 2), (2, 64, 4), (3, 96, 4), (4, 128, 4), (6, 192, 6), (6, 256, 8), (8, 384, 12), (12, 768, 12),
    )
)  # fmt: skip
"""The budget chooses one of them where no size is said."""


def size_names(count: int) -> list[str]:
    """Names of so many sizes, the smallest first."""
    return NAMES.get(count, [f"size {number}" for number in range(1, count + 1)])


def shape_of(architecture: Architecture) -> Shape:
    numbers = architecture.numbers
    return Shape(*(int(numbers[key]) for key in ("depth", "width", "heads")))


def larger_shapes(shape: Shape) -> Iterator[Shape]:
    """Shapes from as large as `shape` on: heads of the same width, more of them; or as many, each wider."""
    head = max(1, shape.width // shape.heads)
    for depth in range(shape.depth, math.ceil(LARGEST_FACTOR * shape.depth) + 1):
        for heads in range(shape.heads, math.ceil(LARGEST_FACTOR * shape.heads) + 1):
            yield Shape(depth, head * heads, heads)
        for wider in range(head + 1, math.ceil(LARGEST_FACTOR * head) + 1):
            if wider % 2 == 0:  # rotary positions turn pairs of channels
                yield Shape(depth, wider * shape.heads, shape.heads)


def next_shape(
    shape: Shape, ratio: float, flops: Callable[[Shape], float | None], fits: Callable[[Shape], bool]
) -> Shape:
    """The shape of the next size: a token costs sqrt(ratio) times as much, as nearly as width and depth can have it.

    flops  those of a token of the base; None for a shape that its text cannot have
    fits   whether the other variants' texts can have it

    Raises InputError where no larger shape can be had.
    """
    now = flops(shape)
    assert now is not None
    target = math.sqrt(ratio)
    best: tuple[float, Shape] | None = None
    for candidate in larger_shapes(shape):
        if candidate == shape:
            continue
        form = math.log(candidate.width / shape.width) - math.log(candidate.depth / shape.depth)
        rough = FORM_WEIGHT * abs(form)
        if best is not None and rough >= best[0]:
            continue
        cost = flops(candidate)
        if cost is None or cost <= now:
            continue
        miss = abs(math.log(cost / now / target)) + rough
        if (best is None or miss < best[0]) and fits(candidate):
            best = miss, candidate
    if best is None:
        raise InputError(f"no larger size can be made of {shape}: compare one size (sizes 1), or change the variants")
    return best[1]


def grown(own: Shape, small: Shape, large: Shape) -> Shape:
    """A variant's own shape grown as `small` has grown into `large`."""
    if own == small:
        return large
    heads = max(1, round(own.heads * large.heads / small.heads))
    head = max(1, round(own.width / own.heads * (large.width / large.heads) / (small.width / small.heads)))
    return Shape(max(1, round(own.depth * large.depth / small.depth)), heads * head, heads)
