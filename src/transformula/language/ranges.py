"""Between which numbers a value lies: how large a table is that it indexes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """low <= value <= high. `whole`: it is a whole number."""

    low: float
    high: float
    whole: bool = False

    @property
    def finite(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def has_zero(self) -> bool:
        return self.low <= 0 <= self.high


ANY = Range(-math.inf, math.inf)


def over(x: float, y: float) -> float:
    if math.isinf(y):
        return math.nan if math.isinf(x) else 0.0
    return x / y


def guarded(of: Callable[..., float], *args: float) -> float:
    try:
        return float(of(*args))
    except OverflowError:
        return math.inf


def corners(of: Callable[[float, float], float], a: Range, b: Range, whole: bool) -> Range:
    """The range of an operation that is monotone in each argument."""
    ends = [guarded(of, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(map(math.isnan, ends)):
        return Range(-math.inf, math.inf, whole)
    return Range(min(ends), max(ends), whole)


def floored(a: Range, b: Range) -> Range:
    exact = corners(over, a, b, True)
    return Range(math.floor(exact.low), math.floor(exact.high), True) if exact.finite else exact


def absolute(a: Range) -> Range:
    low, high = sorted((abs(a.low), abs(a.high)))
    return Range(0 if a.has_zero else low, high, a.whole)


RANGES: dict[str, Callable[[Range, Range, bool], Range | None]] = {
    "neg": lambda a, _, w: Range(-a.high, -a.low, w),
    "abs": lambda a, _, w: absolute(a),
    "exp": lambda a, _, w: Range(guarded(math.exp, a.low), guarded(math.exp, a.high)),
    "sqrt": lambda a, _, w: Range(math.sqrt(a.low), math.sqrt(a.high)) if a.low >= 0 else None,
    "log": lambda a, _, w: Range(math.log(a.low), math.log(a.high)) if a.low > 0 else None,
    "where": lambda a, b, w: Range(min(a.low, b.low), max(a.high, b.high), w),
    "min": lambda a, b, w: Range(min(a.low, b.low), min(a.high, b.high), w),
    "max": lambda a, b, w: Range(max(a.low, b.low), max(a.high, b.high), w),
    "+": lambda a, b, w: corners(operator.add, a, b, w),
    "-": lambda a, b, w: corners(operator.sub, a, b, w),
    "*": lambda a, b, w: corners(lambda x, y: 0.0 if 0 in (x, y) else x * y, a, b, w),
    "/": lambda a, b, w: None if b.has_zero else corners(over, a, b, False),
    "//": lambda a, b, w: None if b.has_zero else floored(a, b),
    "%": lambda a, b, w: Range(0, b.high - w, w) if b.low > 0 else None,
    "**": lambda a, b, w: corners(operator.pow, a, b, False) if a.low > 0 or (a.low == 0 and b.low > 0) else None,
}
"""Operations of the last two arguments, or of one, given twice; w: both are whole. None: it cannot be told."""


def range_of(op: str, args: Sequence[Range], value: object, heads: int, furthest: float) -> Range:
    """The range of an operation of a formula over scores (see score_formula.py), given those of its arguments.

    h is 1 to `heads`, i and j are 0 to `furthest`. What cannot be told is from -inf to inf.
    """
    if op == "number" and isinstance(value, (int, float)):
        return Range(value, value, value == int(value))
    if op in ("h", "i", "j"):
        return Range(1, heads, True) if op == "h" else Range(0, furthest, True)
    if op not in RANGES:
        return ANY
    a, b = [*args, *args][-2:]
    return RANGES[op](a, b, a.whole and b.whole) or ANY
