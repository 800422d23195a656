"""Vectors known by their parts: what a value is while every sublayer yields zero, without a tensor.

A vector is a sum of *parts*, a number times a direction. Directions are numbered: the vector of ones (what is equal in
every channel), what enters a layer, what a norm or a rotation has made of another, copies of one side by side. The
parts give the size, the root mean square over channels; where they do not, the vector is an `UnknownVector` and says
why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

ONES = 0
"""The direction of what is equal in every channel."""

TINY = 1e-12
"""Parts smaller than this, against the others of a sum, are rounding."""


@dataclass(frozen=True)
class KnownVector:
    """A sum of parts: direction -> number. No parts: zero."""

    parts: Mapping[int, float]

    @property
    def constant(self) -> float | None:
        """The number that every channel has; None if channels differ."""
        if not self.parts:
            return 0.0
        return self.parts.get(ONES) if len(self.parts) == 1 else None


@dataclass(frozen=True)
class UnknownVector:
    """A value whose size is not known, and why.

    solid  it is surely neither zero nor so small that a norm's eps counts, so that its norm is known
    up     some of its channels are surely positive
    wild   it may not be finite, so that not even zero times it is known
    """

    why: str
    solid: bool = False
    up: bool = False
    wild: bool = False


Vector = KnownVector | UnknownVector
ZERO = KnownVector({})


def constant(number: float) -> KnownVector:
    """The same number in every channel."""
    return KnownVector({ONES: float(number)}) if number else ZERO


def scaled(value: Vector, factor: float) -> Vector:
    """`factor` times a value."""
    if isinstance(value, UnknownVector):
        if factor == 0 and not value.wild:
            return ZERO
        return value if factor == 1 else UnknownVector(value.why, wild=value.wild)
    return KnownVector({d: c * factor for d, c in value.parts.items()}) if factor else ZERO


def added(left: Vector, right: Vector) -> Vector:
    """The sum of two values; what cancels is gone."""
    unknown = [v for v in (left, right) if isinstance(v, UnknownVector)]
    if unknown:
        if ZERO in (left, right):
            return unknown[0]
        return UnknownVector(unknown[0].why, wild=any(v.wild for v in unknown))
    assert isinstance(left, KnownVector) and isinstance(right, KnownVector)
    parts = dict(left.parts)
    for direction, number in right.parts.items():
        total = parts.get(direction, 0.0) + number
        if total == 0 or abs(total) < TINY * abs(number):
            parts.pop(direction, None)
        else:
            parts[direction] = total
    return KnownVector(parts)


@dataclass
class Direction:
    """One direction, of root mean square 1.

    centered  its mean is 0
    made_by  the norm that leaves it as it is
    up       some of its channels are surely positive
    root     directions of one root may be equal, though made differently
    """

    centered: bool
    made_by: object = None
    up: bool = False
    root: int = ONES


@dataclass
class Directions:
    """The directions of one run, numbered; what is made alike is one direction."""

    all: list[Direction] = field(default_factory=lambda: [Direction(False)])
    known: dict[object, int] = field(default_factory=dict)
    copies: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Directions that are copies of another, side by side -> how many, and of which."""

    def of(
        self, key: object, centered: bool = False, made_by: object = None, up: bool = False, root: int | None = None
    ) -> int:
        """The number of the direction with this key, new if none has it."""
        if key not in self.known:
            number = self.known[key] = len(self.all)
            self.all.append(Direction(centered, made_by, up or centered, number if root is None else root))
        return self.known[key]

    def copied(self, value: Vector, times: int) -> Vector:
        """So many copies of a value side by side: each part's size stays."""
        if isinstance(value, UnknownVector) or times == 1:
            return value
        parts: dict[int, float] = {}
        for direction, number in value.parts.items():
            if direction != ONES:
                of = self.all[direction]
                direction, copied = self.of(("copies", times, direction), of.centered, None, of.up, of.root), direction
                self.copies[direction] = times, copied
            parts[direction] = number
        return KnownVector(parts)

    def single(self, value: Vector, times: int) -> Vector | None:
        """One of so many copies side by side; None if they may differ."""
        if times == 1:
            return value
        if isinstance(value, UnknownVector):
            return None
        parts: dict[int, float] = {}
        for direction, number in value.parts.items():
            if direction != ONES:
                count, direction = self.copies.get(direction, (0, ONES))
                if count != times:
                    return None
            parts[direction] = number
        return KnownVector(parts)

    def solid(self, value: KnownVector) -> bool:
        """Whether a sum of several parts is surely not zero: no two of them can be equal."""
        roots = [self.all[d].root for d in value.parts]
        return len(set(roots)) == len(roots)

    def size(self, value: Vector) -> float | None:
        """The root mean square over channels; None if it is not known."""
        if isinstance(value, UnknownVector):
            return None
        if len(value.parts) <= 1:
            return sum(abs(c) for c in value.parts.values())
        if len(value.parts) == 2 and ONES in value.parts:
            other = next(d for d in value.parts if d != ONES)
            if self.all[other].centered:
                return math.hypot(*value.parts.values())
        return None
