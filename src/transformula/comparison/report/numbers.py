"""Numbers of a report: as many digits as the noise between seeds leaves meaning to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from ...cost.words import AMOUNTS, duration, in_units
from ..numbers import NOTHING, between, fixed
from ..records import Results
from ..statistics.paired import paired_test
from .document import Cell


def digits_of(results: Results) -> int:
    """Decimals of scores: two digits of the noise between seeds, at least 1 and at most 6."""
    noises = [verdict.noise["seeds"] for verdict in results.verdicts if verdict.noise.get("seeds")]
    if not noises:
        scores = [list(results.scores_of(results.base, size).values()) for size in results.sizes]
        noises = [stdev(group) for group in scores if len(group) > 1 and stdev(group) > 0]
    return 4 if not noises else min(max(1 - math.floor(math.log10(median(noises))), 1), 6)


def rate_in_words(rate: float | None) -> str:
    """A learning rate: '0.002', '3.1e-05'."""
    return NOTHING if rate is None else f"{rate:.2g}"


def amount(number: float) -> str:
    """'1.23 M'."""
    return f"{number:.3g}" if number >= 1e15 else in_units(number, AMOUNTS) or "0"


def duration_in_words(seconds: float | None) -> str:
    """'8.0 s', '3 min 20 s', '2 h 5 min'."""
    return NOTHING if seconds is None else duration(seconds)


def number_cell(value: float | None, digits: int, sign: bool = False) -> Cell:
    """A field of so many decimals, whose number stands behind its text in full."""
    return Cell(fixed(value, digits, sign), value)


def interval_cell(interval: tuple[float, float] | None, digits: int) -> Cell:
    """A field of an interval, sorted by its lower end."""
    return Cell(between(interval, digits, sign=True), interval and interval[0])


def mean_cells(values: Sequence[float | None], digits: int) -> tuple[Cell, Cell]:
    """The mean over seeds and its 95 % interval; None is left out."""
    numbers = [value for value in values if value is not None]
    mean = fmean(numbers) if numbers else None
    interval = paired_test(numbers).interval if len(numbers) > 1 else None
    return number_cell(mean, digits, sign=True), interval_cell(interval, digits)


def excess(value: float, base: float) -> str:
    """How much more than the base, in percent: ' (+1.2 %)'; nothing where they are equal."""
    if not base or value == base:
        return ""
    return f" ({100 * (value - base) / base:+.1f} %)"
