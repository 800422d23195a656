"""How small a difference can so many pairs of seeds find? Said before the runs, and again after them.

A paired t-test of k differences with standard deviation s finds a true difference of

    detectable = n s / sqrt(k),  P(t of noncentrality n > t_(1 - level/2)) = power,  k - 1 degrees of freedom

with the stated power. Several variants share the level (Bonferroni, which Holm's correction never falls short of).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from ...extras import need
from ..records import Outcome, outcomes_of

PURPOSE = "the statistics of a comparison"
LEVEL = 0.05  # of all tests; intervals are of 1 - LEVEL
POWER = 0.8
MAX_PAIRS = 1000
NEAR_FACTOR = 2.5  # times the best rate, up or down: runs farther away are noisier than what will be compared


@dataclass(frozen=True)
class Noise:
    """Standard deviation of a paired difference, in the score's unit, as it was measured before; the degrees of freedom
    of that estimate, and where it is from, in words."""

    difference: float
    degrees: int
    source: str


def noise_of_tuning(outcomes: Sequence[Outcome], base: str, size: str, lower: bool) -> Noise | None:
    """From the base's tuning runs: the deviation of equal runs with other seeds, at rates near the best, times sqrt(2)
    (a pair's two runs as if they had nothing in common: pairs that do are less noisy). None without two seeds."""
    by_rate: dict[float, list[float]] = {}
    for o in outcomes_of(outcomes, base, size, "tune"):
        if o.score is not None and math.isfinite(o.score):
            by_rate.setdefault(o.lr, []).append(o.score)
    groups = {rate: scores for rate, scores in by_rate.items() if len(scores) > 1}
    if not groups:
        return None
    best = (min if lower else max)(groups, key=lambda rate: fmean(groups[rate]))
    near = [scores for rate, scores in groups.items() if 1 / NEAR_FACTOR <= rate / best <= NEAR_FACTOR]
    degrees = sum(len(scores) - 1 for scores in near)
    variance = sum(pvariance(scores) * len(scores) for scores in near) / degrees
    runs = sum(map(len, near))
    return Noise(math.sqrt(2 * variance), degrees, f"measured: {runs} runs of the base that tuned its rate")


def detectable(sd: float, pairs: int, variants: int = 1, power: float = POWER, level: float = LEVEL) -> float:
    """The smallest true difference that `pairs` find with `power`; infinite below two pairs."""
    if pairs < 2:
        return math.inf
    special = need("scipy.special", PURPOSE)
    limit = special.stdtrit(pairs - 1, 1 - level / variants / 2)
    return float(special.nctdtrinc(pairs - 1, 1 - power, limit)) * sd / math.sqrt(pairs)


def needed_pairs(sd: float, effect: float, variants: int = 1, power: float = POWER, level: float = LEVEL) -> int | None:
    """The fewest pairs that find `effect` with `power`; None above 1,000."""
    if sd == 0:
        return 2
    pairs = range(2, MAX_PAIRS + 1)
    place = bisect_left(pairs, -effect, key=lambda k: -detectable(sd, k, variants, power, level))
    return pairs[place] if place < len(pairs) else None
