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


ANY = Range(-math.inf, math.inf)


def over(x: float, y: float) -> float:
    if math.isinf(y):
        return math.nan if math.isinf(x) else 0.0
    return x / y


def corners(of: Callable[[float, float], float], a: Range, b: Range, whole: bool) -> Range:
    """The range of an operation that is monotone in each argument."""
    found = [guarded(of, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(math.isnan(f) for f in found):
        return Range(-math.inf, math.inf, whole)
    return Range(min(found), max(found), whole)


def guarded(of: Callable[..., float], *args: float) -> float:
    try:
        return float(of(*args))
    except OverflowError:
        return math.inf


def floored(a: Range, b: Range) -> Range:
    found = corners(over, a, b, True)
    return Range(math.floor(found.low), math.floor(found.high), True) if found.finite else found


def absolute(a: Range) -> Range:
    low, high = sorted((abs(a.low), abs(a.high)))
    return Range(0 if a.low <= 0 <= a.high else low, high, a.whole)


def without_zero(a: Range) -> bool:
    return not a.low <= 0 <= a.high


ONE: dict[str, tuple[Callable[[Range], bool], Callable[[Range], Range]]] = {
    "neg": (lambda a: True, lambda a: Range(-a.high, -a.low, a.whole)),
    "abs": (lambda a: True, absolute),
    "exp": (lambda a: True, lambda a: Range(guarded(math.exp, a.low), guarded(math.exp, a.high))),
    "sqrt": (lambda a: a.low >= 0, lambda a: Range(math.sqrt(a.low), math.sqrt(a.high))),
    "log": (lambda a: a.low > 0, lambda a: Range(math.log(a.low), math.log(a.high))),
}
"""Operations of one argument: where their range can be told, and that range."""

TWO: dict[str, tuple[Callable[[Range, Range], bool], Callable[[Range, Range, bool], Range]]] = {
    "min": (lambda a, b: True, lambda a, b, w: Range(min(a.low, b.low), min(a.high, b.high), w)),
    "max": (lambda a, b: True, lambda a, b, w: Range(max(a.low, b.low), max(a.high, b.high), w)),
    "+": (lambda a, b: True, lambda a, b, w: corners(operator.add, a, b, w)),
    "-": (lambda a, b: True, lambda a, b, w: corners(operator.sub, a, b, w)),
    "*": (lambda a, b: True, lambda a, b, w: corners(lambda x, y: 0.0 if 0 in (x, y) else x * y, a, b, w)),
    "/": (lambda a, b: without_zero(b), lambda a, b, w: corners(over, a, b, False)),
    "//": (lambda a, b: without_zero(b), lambda a, b, w: floored(a, b)),
    "%": (lambda a, b: b.low > 0, lambda a, b, w: Range(0, b.high - w, w)),
    "**": (lambda a, b: a.low > 0 or (a.low == 0 and b.low > 0), lambda a, b, w: corners(operator.pow, a, b, False)),
}
"""Operations of two arguments; w: both are whole."""


def range_of(op: str, args: Sequence[Range], value: object, heads: int, furthest: float) -> Range:
    """The range of an operation of a formula over scores (see score_formula.py), given those of its arguments.

    h is 1 to `heads`, i and j are 0 to `furthest`. What cannot be told is from -inf to inf.
    """
    if op == "number" and isinstance(value, (int, float)):
        return Range(value, value, value == int(value))
    if op in ("h", "i", "j"):
        return Range(1, heads, True) if op == "h" else Range(0, furthest, True)
    if op == "where":
        a, b = args[1:]
        return Range(min(a.low, b.low), max(a.high, b.high), a.whole and b.whole)
    if op in ONE and ONE[op][0](args[0]):
        return ONE[op][1](args[0])
    if op in TWO and TWO[op][0](args[0], args[1]):
        return TWO[op][1](args[0], args[1], args[0].whole and args[1].whole)
    return ANY
