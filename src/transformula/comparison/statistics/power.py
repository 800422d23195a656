"""How small a difference can so many pairs of seeds find? Said before the runs, and again after them.

A paired t-test of k differences with standard deviation s finds a true difference of

    detectable = n s / sqrt(k),  P(t of noncentrality n > t_(1 - level/2)) = power,  k - 1 degrees of freedom

with the stated power. Several variants share the level (Bonferroni, which Holm's correction never falls short of).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import pvariance

from ...extras import need
from ..records import Key, Outcome

PURPOSE = "the statistics of a comparison"
LEVEL = 0.05  # of all tests; intervals are of 1 - LEVEL
POWER = 0.8
MAX_PAIRS = 1000
WEIGHT = 4  # degrees of freedom, of what was expected: right within 1.5 times in half of real comparisons
NEAR = 1  # powers of two around a chosen rate: runs farther away are noisier than what will be compared


@dataclass(frozen=True)
class Noise:
    """Standard deviation of a paired difference, in the score's unit, as it was measured before; the degrees of freedom
    of that estimate, and where it is from, in words. `common`: the deviation of what all pairs have alike."""

    difference: float
    degrees: int
    source: str
    common: float = 0.0


def noise_of_tuning(outcomes: Sequence[Outcome], base: str, size: str, rates: Mapping[Key, float]) -> Noise | None:
    """From runs that tuned rates: how much the difference to the base varies from seed to seed, at rates as far from
    those that were chosen, up to twice and half of these. Where the base alone was tuned: the deviation of its runs,
    times sqrt(2), as if a pair's two had nothing in common. None without two seeds."""
    scores: dict[str, dict[tuple[int, int], float]] = {}
    for o in outcomes:
        if (o.size, o.stage) == (size, "tune") and o.score is not None and math.isfinite(o.score):
            away = math.floor(math.log2(o.lr / rates[o.arm_key]) + 0.5)  # another for each rate of a grid
            if abs(away) <= NEAR:
                scores.setdefault(o.variant, {})[away, o.seed] = o.score
    theirs, groups = scores.pop(base, {}), dict[tuple[str, int], list[float]]()
    for name, own in scores.items() or [("", dict.fromkeys(theirs, 0.0))]:
        for away, seed in own.keys() & theirs.keys():
            difference = own[away, seed] - theirs[away, seed]
            groups.setdefault((name, away), []).append(difference if name else math.sqrt(2) * difference)
    counted = f"{sum(map(len, groups.values()))} {'pairs of ' if scores else ''}runs"
    return pooled(groups.values(), f"{counted} that tuned rates")


def pooled(groups: Iterable[Sequence[float]], source: str) -> Noise | None:
    """The deviation within groups of differences, each of which has a mean of its own; None without two in any."""
    groups = [group for group in groups if len(group) > 1]
    degrees = sum(len(group) - 1 for group in groups)
    squares = sum(pvariance(group) * len(group) for group in groups)
    return Noise(math.sqrt(squares / degrees), degrees, source) if degrees else None


def both(expected: float, measured: Noise) -> Noise:
    """What was measured, with what was expected at the weight of so many degrees of freedom."""
    degrees = WEIGHT + measured.degrees
    variance = (WEIGHT * expected**2 + measured.degrees * measured.difference**2) / degrees
    return Noise(math.sqrt(variance), degrees, f"{measured.source}, and what was expected")


def detectable(
    sd: float, pairs: int, variants: int = 1, power: float = POWER, level: float = LEVEL, common: float = 0.0
) -> float:
    """The smallest true difference that `pairs` find with `power`; infinite below two pairs. `common`: the deviation of
    what all pairs have alike."""
    if pairs < 2:
        return math.inf
    special = need("scipy.special", PURPOSE)
    limit = special.stdtrit(pairs - 1, 1 - level / variants / 2)
    return float(special.nctdtrinc(pairs - 1, 1 - power, limit)) * math.hypot(sd / math.sqrt(pairs), common)


def needed_pairs(sd: float, effect: float, variants: int = 1, common: float = 0.0) -> int | None:
    """The fewest pairs that find `effect` with a power of 80 %; None above 1,000."""
    if sd == common == 0:
        return 2
    pairs = range(2, MAX_PAIRS + 1)
    place = bisect_left(pairs, -effect, key=lambda k: -detectable(sd, k, variants, common=common))
    return pairs[place] if place < len(pairs) else None
