"""How sure a score is: bootstrap intervals (Koehn 2004, "Statistical significance tests for machine translation").

A resample draws as many examples as there are, with replacement. Its score needs only how often each example was
drawn: (resamples, examples) counts times (examples, numbers) statistics are the sums that a score is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from .measured import Measured, Numbers

AT_ONCE = 1 << 22
"""Counts held at one time: 32 MiB."""


@dataclass(frozen=True)
class Interval:
    """Between `low` and `high` lies the score in `level` of the resamples (the middle ones)."""

    low: float
    high: float
    level: float = 0.95

    def __str__(self) -> str:
        return f"[{self.low:.1f}, {self.high:.1f}]"


def resampled(measured: Measured, resamples: int = 1000, seed: int = 1) -> Numbers:
    """The scores of resamples, (resamples,). Which examples each draws follows from the seed and their number."""
    if resamples < 1:
        raise InputError(f"{resamples} resamples: a bootstrap needs at least one")
    examples = len(measured)
    generator = np.random.default_rng(seed)
    sums = []
    for start in range(0, resamples, step := max(1, AT_ONCE // examples)):
        drawn = generator.integers(examples, size=(min(step, resamples - start), examples))
        counts = np.stack([np.bincount(row, minlength=examples) for row in drawn])
        sums.append(counts.astype(np.float64) @ measured.statistics)
    return measured.value(np.concatenate(sums))


def middle(scores: Numbers, level: float) -> Interval:
    """The percentiles between which `level` of the scores lie."""
    if not 0 < level < 1:
        raise InputError(f"an interval of level {level}: it lies between 0 and 1, as 0.95")
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)


def interval(measured: Measured, *, level: float = 0.95, resamples: int = 1000, seed: int = 1) -> Interval:
    """Between which scores the examples might as well have led. Raises InputError."""
    return middle(resampled(measured, resamples, seed), level)
