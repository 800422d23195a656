"""Is a mean difference other than 0? The paired t-test, the exact sign-flip test, the bootstrap, equivalence.

With differences d_1 ... d_k by seed, of mean m and standard deviation s:

    t-test       m / (s / sqrt(k)) against t of k - 1 degrees of freedom; interval m -+ t s / sqrt(k)
    sign flip    the share of all 2^k sign patterns whose mean is as far from 0: exact, for any distribution that is
                 symmetric, as differences of two equal things are (Fisher 1935)
    BCa          interval of the mean by resampling the pairs (Efron 1987); with fewer than 8 it is too narrow
    equivalence  two one-sided t-tests against -effect and effect (Schuirmann 1987)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...extras import need
from .power import LEVEL, PURPOSE

BOOTSTRAP_FROM = 8  # pairs
RESAMPLES = 9999
EXACT_UP_TO = 16  # pairs: above it, sign patterns are drawn

Kind = Literal["paired", "unpaired", "stopped", "diverged"]


@dataclass(frozen=True)
class Estimate:
    """A mean difference, in the score's unit, and what its test says. `sd`: of the differences by seed; None where
    there are no pairs. `p` of `kind`: the test by which it was found."""

    mean: float | None
    interval: tuple[float, float] | None
    p: float
    sd: float | None
    pairs: int
    kind: Kind = "paired"


def paired_test(differences: Sequence[float], level: float = LEVEL) -> Estimate:
    """The paired t-test of two or more differences, with the interval of 1 - level.

    Where all differences are equal there is no noise to measure by: p is then the sign-flip test's."""
    d = np.asarray(differences, dtype=float)
    mean, sd = float(d.mean()), float(d.std(ddof=1))
    if is_constant(d):
        return Estimate(mean, (mean, mean), sign_flip(differences)[0], 0.0, len(d))
    result = need("scipy.stats", PURPOSE).ttest_1samp(d, 0.0)
    low, high = result.confidence_interval(1 - level)
    return Estimate(mean, (float(low), float(high)), float(result.pvalue), sd, len(d))


def is_constant(values: Sequence[float] | np.ndarray) -> bool:
    """Whether values differ by rounding at most: there is no noise to measure by."""
    return float(np.ptp(values)) <= 1e-9 * float(np.abs(values).max())


def unpaired_test(variant: Sequence[float], base: Sequence[float], level: float = LEVEL) -> Estimate:
    """Welch's t-test of runs that share no seed; two or more of each."""
    mean = float(np.mean(variant) - np.mean(base))
    if is_constant(variant) and is_constant(base):
        return Estimate(mean, (mean, mean), 1.0, None, 0, "unpaired")
    result = need("scipy.stats", PURPOSE).ttest_ind(variant, base, equal_var=False)
    low, high = result.confidence_interval(1 - level)
    return Estimate(mean, (float(low), float(high)), float(result.pvalue), None, 0, "unpaired")


def sign_flip(differences: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """(p, the smallest p that so many pairs can reach), two-sided."""
    d = np.asarray(differences, dtype=float)
    smallest = 2.0 ** (1 - min(len(d), EXACT_UP_TO))
    if not d.any():
        return 1.0, smallest
    result = need("scipy.stats", PURPOSE).permutation_test(
        (d,), np.mean, permutation_type="samples", vectorized=True, n_resamples=2**EXACT_UP_TO, rng=0
    )
    return float(result.pvalue), smallest


def bootstrap_interval(differences: Sequence[float], level: float = LEVEL) -> tuple[float, float] | None:
    """The BCa interval of the mean; None with fewer than 8 pairs. The same resamples each time."""
    d = np.asarray(differences, dtype=float)
    if len(d) < BOOTSTRAP_FROM:
        return None
    if is_constant(d):
        return float(d[0]), float(d[0])
    result = need("scipy.stats", PURPOSE).bootstrap(
        (d,), np.mean, confidence_level=1 - level, method="BCa", n_resamples=RESAMPLES, rng=0
    )
    low, high = result.confidence_interval
    return float(low), float(high)


def equivalence_p(differences: Sequence[float], effect: float) -> float:
    """p of the claim that the mean lies within -effect and effect."""
    d = np.asarray(differences, dtype=float)
    if is_constant(d):
        return sign_flip(d)[1] if abs(d[0]) < effect and d.any() else float(abs(d[0]) >= effect)
    weightstats = need("statsmodels.stats.weightstats", PURPOSE)
    return float(weightstats.ttost_paired(d, np.zeros(len(d)), -effect, effect)[0])


def unequal_counts(only_variant: int, only_base: int) -> float:
    """p that a run of the variant and one of the base diverge equally often: McNemar's exact test, two-sided, of the
    seeds at which only one of the two diverged."""
    both = only_variant + only_base
    return float(need("scipy.stats", PURPOSE).binomtest(only_variant, both).pvalue) if both else 1.0


def holm(p: Sequence[float]) -> list[float]:
    """p after Holm's correction (1979): 5 % for at least one false finding among all of them."""
    if len(p) < 2:
        return list(p)
    return [float(q) for q in need("statsmodels.stats.multitest", PURPOSE).multipletests(p, method="holm")[1]]
