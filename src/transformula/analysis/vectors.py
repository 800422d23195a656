"""Vectors known by their parts: what a value is while every sublayer yields zero, without a tensor.

A vector is a sum of *parts*, a number times a direction: the vector of ones (what is equal in every channel), what
enters a layer, what a norm or a rotation has made of another, copies of one side by side. The parts give the size, the
root mean square over channels; where they do not, the vector is an `UnknownVector` and says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

TINY = 1e-12  # parts smaller than this, against the others of a sum, are rounding


@dataclass(eq=False)
class Direction:
    """One direction, of root mean square 1.

    centered  its mean is 0
    made_by   the norm that leaves it as it is
    up        some of its channels are surely positive
    root      directions of one root may be equal, though made differently; by default itself
    times     it is so many copies of `single`, side by side; 0: of none
    """

    centered: bool = False
    made_by: object = None
    up: bool = False
    root: Direction | None = None
    times: int = 0
    single: Direction | None = None

    def __post_init__(self) -> None:
        self.up, self.root = self.up or self.centered, self.root or self


ONES = Direction()  # of what is equal in every channel


@dataclass(frozen=True)
class KnownVector:
    """A sum of parts. No parts: zero."""

    parts: Mapping[Direction, float]
    wild: ClassVar[bool] = False

    @property
    def constant(self) -> float | None:
        """The number that every channel has; None if channels differ."""
        if not self.parts:
            return 0.0
        return self.parts.get(ONES) if len(self.parts) == 1 else None

    @property
    def size(self) -> float | None:
        """The root mean square over channels; None if it is not known."""
        if len(self.parts) <= 1:
            return sum(map(abs, self.parts.values()))
        known = len(self.parts) == 2 and ONES in self.parts and any(d.centered for d in self.parts)
        return math.hypot(*self.parts.values()) if known else None

    def scaled(self, factor: float) -> Vector:
        return KnownVector({d: c * factor for d, c in self.parts.items()}) if factor else ZERO

    @property
    def independent(self) -> bool:
        """Whether no two parts can be equal, so that they do not cancel."""
        return len({direction.root for direction in self.parts}) == len(self.parts)


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
    constant: ClassVar[None] = None
    size: ClassVar[None] = None

    def scaled(self, factor: float) -> Vector:
        if factor == 0 and not self.wild:
            return ZERO
        return self if factor == 1 else UnknownVector(self.why, wild=self.wild)


Vector = KnownVector | UnknownVector
ZERO: Vector = KnownVector({})


def constant(number: float) -> Vector:
    return KnownVector({ONES: float(number)}) if number else ZERO


def added(left: Vector, right: Vector) -> Vector:
    """The sum of two values; what cancels is gone."""
    if not isinstance(left, KnownVector):
        return left if right == ZERO else UnknownVector(left.why, wild=left.wild or right.wild)
    if not isinstance(right, KnownVector):
        return right if left == ZERO else UnknownVector(right.why, wild=right.wild)
    parts = dict(left.parts)
    for direction, number in right.parts.items():
        parts[direction] = total = parts.get(direction, 0.0) + number
        if total == 0 or abs(total) < TINY * abs(number):
            del parts[direction]
    return KnownVector(parts)


def operation(op: str, left: Vector, right: Vector = ZERO) -> Vector:
    """Arithmetic. Zero times what is not known is zero."""
    match op:
        case "neg":
            return left.scaled(-1)
        case "add":
            return added(left, right)
        case "sub":
            return added(left, right.scaled(-1))
        case "div":
            number = right.constant
            return left.scaled(1 / number) if number else UnknownVector("a quotient of two streams", wild=True)
        case "pow":
            return power(left.constant, right.constant)
        case "dot":
            return mean_product(left, right)
    if ZERO in (left, right):
        return added(left.scaled(0), right.scaled(0))
    for value, factor in ((left, right.constant), (right, left.constant)):
        if factor is not None:
            return value.scaled(factor)
    return UnknownVector("a product of two streams", wild=left.wild or right.wild)


def power(base: float | None, exponent: float | None) -> Vector:
    try:
        if base is not None and exponent is not None and math.isfinite(base):
            result = base**exponent
            if not isinstance(result, complex):
                return constant(result)
    except OverflowError:
        return UnknownVector("a power too large for a number")
    except ZeroDivisionError:
        pass
    return UnknownVector("a power of a stream", wild=exponent is None or exponent < 1)


def mean_product(left: Vector, right: Vector) -> Vector:
    """The mean over channels of a product, of one direction with itself or of what is 0."""
    if ZERO in (left, right):
        return ZERO
    if isinstance(left, KnownVector) and isinstance(right, KnownVector) and left.parts.keys() == right.parts.keys():
        if len(left.parts) == 1:
            return constant(sum(number * right.parts[d] for d, number in left.parts.items()))
    return UnknownVector("an inner product of two streams")


def single(value: Vector, times: int) -> Vector | None:
    """One of so many copies side by side; None if they may differ."""
    if times == 1:
        return value
    if isinstance(value, UnknownVector) or any(d.times != times for d in value.parts if d is not ONES):
        return None
    return KnownVector({d.single or ONES: number for d, number in value.parts.items()})
