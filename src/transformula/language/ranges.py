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


def _corners(of: Callable[[float, float], float], args: Sequence[Range], whole: bool) -> Range:
    """The range of an operation that is monotone in each argument."""
    a, b = args
    found = [of(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(math.isnan(f) for f in found):
        return Range(-math.inf, math.inf, whole)
    return Range(min(found), max(found), whole)


def _times(x: float, y: float) -> float:
    return 0.0 if 0 in (x, y) else x * y


def _over(x: float, y: float) -> float:
    if math.isinf(y):
        return math.nan if math.isinf(x) else 0.0
    return x / y


def _power(x: float, y: float) -> float:
    try:
        return float(x**y)
    except OverflowError:
        return math.inf


def _grown(of: Callable[[float], float], a: Range) -> Range:
    """The range of a function that grows."""

    def at(x: float) -> float:
        try:
            return of(x)
        except OverflowError:
            return math.inf

    return Range(at(a.low), at(a.high))


def range_of(op: str, args: Sequence[Range], value: object, heads: int, furthest: float) -> Range:
    """The range of an operation of a formula over scores (see score_formula.py), given those of its arguments.

    h is 1 to `heads`, i and j are 0 to `furthest`. What cannot be told is from -inf to inf.
    """
    whole = all(a.whole for a in args)
    match op:
        case "number" if isinstance(value, (int, float)):
            return Range(value, value, value == int(value))
        case "h":
            return Range(1, heads, True)
        case "i" | "j":
            return Range(0, furthest, True)
        case "where":
            one, other = args[1:]
            return Range(min(one.low, other.low), max(one.high, other.high), one.whole and other.whole)
        case "neg":
            return Range(-args[0].high, -args[0].low, whole)
        case "abs":
            low, high = args[0].low, args[0].high
            return Range(0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)), whole)
        case "exp":
            return _grown(math.exp, args[0])
        case "sqrt" if args[0].low >= 0:
            return _grown(math.sqrt, args[0])
        case "log" if args[0].low > 0:
            return _grown(math.log, args[0])
        case "min":
            return Range(min(a.low for a in args), min(a.high for a in args), whole)
        case "max":
            return Range(max(a.low for a in args), max(a.high for a in args), whole)
        case "+":
            return _corners(operator.add, args, whole)
        case "-":
            return _corners(operator.sub, args, whole)
        case "*":
            return _corners(_times, args, whole)
        case "/" if not args[1].low <= 0 <= args[1].high:
            return _corners(_over, args, False)
        case "//" if not args[1].low <= 0 <= args[1].high:
            found = _corners(_over, args, True)
            return Range(math.floor(found.low), math.floor(found.high), True) if found.finite else found
        case "%" if args[1].low > 0:
            return Range(0, args[1].high - whole, whole)
        case "**" if args[0].low > 0 or (args[0].low == 0 and args[1].low > 0):
            return _corners(_power, args, False)
    return ANY
