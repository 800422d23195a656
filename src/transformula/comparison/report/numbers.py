"""Numbers in words: as many digits as the noise leaves meaning to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev

from ...cost.words import AMOUNTS, duration, in_units
from ..records import Results
from .document import Cell
from .selection import scores_of, sizes_of

NOTHING = "–"
"""What stands where there is no number."""


def digits_of(results: Results) -> int:
    """Decimals of scores: two digits of the noise between seeds, at least 1 and at most 6."""
    noises = [verdict.noise["seeds"] for verdict in results.verdicts if verdict.noise.get("seeds")]
    if not noises:
        scores = [list(scores_of(results, results.base, size).values()) for size in sizes_of(results)]
        noises = [stdev(group) for group in scores if len(group) > 1 and stdev(group) > 0]
    return 4 if not noises else min(max(1 - math.floor(math.log10(median(noises))), 1), 6)


def fixed(value: float | None, digits: int, sign: bool = False) -> str:
    """'1.7200', with `sign` '+0.0120'; a dash for None and for what is not finite."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "no limit"
    return f"{value:{'+' if sign else ''},.{digits}f}"


def between(interval: Sequence[float] | None, digits: int, sign: bool = False) -> str:
    """'-0.0120 to -0.0040'."""
    return NOTHING if interval is None else f"{fixed(interval[0], digits, sign)} to {fixed(interval[1], digits, sign)}"


def probability(p: float | None) -> str:
    """'0.012', '< 0.001'."""
    if p is None or math.isnan(p):
        return NOTHING
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def rate_in_words(rate: float | None) -> str:
    """A learning rate: '0.002', '3.1e-05'."""
    return NOTHING if rate is None else f"{rate:.2g}"


def amount(number: float | None, unit: str = "") -> str:
    """'1.23 M', with a unit '4.56 TFLOP'."""
    if number is None:
        return NOTHING
    return f"{number:.3g} {unit}".rstrip() if number >= 1e15 else (in_units(number, AMOUNTS) or "0") + unit


def duration_in_words(seconds: float | None) -> str:
    """'8.0 s', '3 min 20 s', '2 h 5 min'."""
    return NOTHING if seconds is None else duration(seconds)


def number_cell(value: float | None, digits: int, sign: bool = False) -> Cell:
    """A field of so many decimals, whose number stands behind its text in full."""
    return Cell(fixed(value, digits, sign), value)


def beside(value: float, base: float | None) -> str:
    """How much more than the base, in percent: ' (+1.2 %)'; nothing where they are equal or there is no base."""
    if not base or value == base:
        return ""
    return f" ({100 * (value - base) / base:+.1f} %)"
