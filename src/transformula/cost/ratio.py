"""How many times as long does one thing take as another? From pairs that were measured side by side.

What else the machine does slows both of a pair, and cancels in their ratio. Of the log ratios r_1 ... r_k of pairs

    ratio     exp(median)
    interval  exp(mean -+ t s / sqrt(k)) of 99.9 %, with the median in it, and no narrower than 2 % to either side:
              equal programs differ by so much on one machine, by where their memory happens to lie

A ratio whose interval holds 1 may be noise: 1 is counted with in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import NamedTuple

from ..extras import need

LEVEL = 0.001  # so that of a hundred ratios of equal things about none is called clear
INTERVAL = "99.9 % interval"
RESOLUTION = 0.02  # of the machine: see above
MIN_PAIRS = 3

Times = tuple[float, float]  # seconds, and those of the process's processors; 0 where these are not the measure


class Ratio(NamedTuple):
    """An estimate and its interval."""

    value: float
    low: float
    high: float

    @property
    def factor(self) -> float:
        """What is counted with: exactly 1 where the interval, as it is shown, holds 1."""
        return 1.0 if round(self.low, 2) <= 1 <= round(self.high, 2) else self.value

    @property
    def log_half(self) -> float:
        """Half the interval of the log; infinity, where too few pairs were measured."""
        return math.log(self.high / self.low) / 2 if self.low > 0 else math.inf

    def times(self, factor: float) -> Ratio:
        return Ratio(*(factor * each for each in self))

    def __str__(self) -> str:
        """'1.13 (1.10 to 1.16)', 'about 1 (0.97 to 1.05)'"""
        return f"{'about 1' if self.factor == 1 else f'{self.value:.2f}'} ({self.low:.2f} to {self.high:.2f})"


def ratio_of_times(ours: Sequence[Times], theirs: Sequence[Times]) -> Ratio:
    """The ratio of one or more pairs of times: of those of processors, where all have them. Raises MissingExtra without
    scipy."""
    by_cpu = all(cpu > 0 for _, cpu in [*ours, *theirs])
    logs = [math.log(one[by_cpu] / other[by_cpu]) for one, other in zip(ours, theirs, strict=True)]
    middle = median(logs)
    if len(logs) < MIN_PAIRS:
        return Ratio(math.exp(middle), 0.0, math.inf)
    t = float(need("scipy.special", "ratios of times").stdtrit(len(logs) - 1, 1 - LEVEL / 2))
    half = max(t * stdev(logs) / math.sqrt(len(logs)), RESOLUTION if any(logs) else 0.0)
    center = fmean(logs)
    return Ratio(*map(math.exp, (middle, min(middle, center) - half, max(middle, center) + half)))
