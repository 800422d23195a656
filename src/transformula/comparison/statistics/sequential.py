"""Looking before the end, without more false findings: `--until decided`.

A test at 5 % after 4, again after 6, 9 and 12 seeds finds a difference that is not there in 12 % of comparisons. So
each look spends a part of the 5 %, in proportion to the seeds that it adds (Lan and DeMets 1983; Kim and DeMets 1987,
spending of power 1): a(k) = 0.05 k / 12. The level of a look is what a t-test may use there so that the looks up to it
find something in a(k) of the comparisons without a difference. For differences of a normal distribution the t-values
of all looks have one joint distribution, from which the levels were drawn (4 million comparisons, rounded down).

O'Brien and Fleming's levels were the alternative: 0.0007 at the first look, so that nothing stops there, for 6 % more
power at the last one where the difference is one standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...extras import need
from ..records import Verdict
from ..settings import LOOKS
from .paired import Estimate
from .power import LEVEL, PURPOSE, Noise

LEVELS = dict(zip(LOOKS, (0.0167, 0.0121, 0.0172, 0.0213), strict=True))
HOPELESS_DEVIATIONS = 6.0  # of the noise, worse after one seed: the arm is stopped
MIN_DEGREES = 3  # of freedom, that the noise must be known with to stop an arm by it


def level_at(pairs: int) -> float:
    """The level of a look; with pairs missing, that of the first look that has as many."""
    return LEVELS[next((look for look in LOOKS if look >= pairs), max(LOOKS))]


def over_all_looks(p: float, pairs: int) -> float:
    """p as if there were one look: below 0.05 where p is below the level of its look."""
    return min(1.0, p * LEVEL / level_at(pairs))


def is_decided(verdict: Verdict) -> bool:
    """Whether more seeds would change nothing that was asked."""
    return verdict.word in ("better", "worse", "equivalent", "unstable")


def undecided(verdicts: Iterable[Verdict]) -> set[tuple[str, str]]:
    """(variant, size) of all that need another look."""
    return {v.arm_key for v in verdicts if not is_decided(v)}


def is_hopeless(difference: float, noise: Noise, lower: bool) -> bool:
    """Whether an arm stops after its first seed: worse than the base by 6 noise deviations."""
    worse = difference if lower else -difference
    return noise.degrees >= MIN_DEGREES and noise.difference > 0 and worse > HOPELESS_DEVIATIONS * noise.difference


def stopped_early(difference: float, noise: Noise) -> Estimate:
    """What one pair says, by noise that was measured before it."""
    t = need("scipy.stats", PURPOSE).t(noise.degrees)
    half = float(t.ppf(1 - LEVEL / 2)) * noise.difference
    p = 2 * float(t.sf(abs(difference) / noise.difference))
    return Estimate(difference, (difference - half, difference + half), p, None, 1, "stopped")
