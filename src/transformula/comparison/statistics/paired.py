"""Is a mean difference other than 0? The paired t-test, the exact sign-flip test, the bootstrap, equivalence.

With differences d_1 ... d_k by seed, of mean m and standard deviation s:

    t-test       m / (s / sqrt(k)) against t of k - 1 degrees of freedom; interval m -+ t s / sqrt(k)
    sign flip    the share of all 2^k sign patterns whose mean is as far from 0: exact, for any distribution that is
                 symmetric, as differences of two equal things are (Fisher 1935)
    BCa          interval of the mean by resampling the pairs (Efron 1987); with fewer than 8 it is too narrow
    equivalence  two one-sided t-tests against -effect and effect (Schuirmann 1987)

What all pairs have alike does not show in s: the learning rates, see `rates.py`. Its variance q^2, of nu degrees of
freedom, is added to s^2 / k. The t then has (s^2 / k + q^2)^2 / ((s^2 / k)^2 / (k - 1) + q^4 / nu) degrees of freedom
(Satterthwaite 1946). The sign patterns' means and the bootstrap's are spread by a normal deviation q.
"""

from __future__ import annotations

import math
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
Part = tuple[float, float]  # of the variance of a mean: (variance, degrees of freedom by which it is known)
CERTAIN: Part = (0.0, 1.0)  # of a mean that nothing adds to


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


def paired_test(differences: Sequence[float], level: float = LEVEL, common: Part = CERTAIN) -> Estimate:
    """The paired t-test of two or more differences, with the interval of 1 - level; `common`: what all of them have
    alike.

    Where all differences are equal there is no noise to measure by: p is then the sign-flip test's."""
    d = np.asarray(differences, dtype=float)
    mean, sd = float(d.mean()), float(d.std(ddof=1))
    if is_constant(d) and not common[0]:
        return Estimate(mean, (mean, mean), sign_flip(differences)[0], 0.0, len(d))
    return Estimate(mean, *t_test(mean, [mean_part(d), common], level), sd, len(d))


def mean_part(values: Sequence[float] | np.ndarray) -> Part:
    """The variance of the mean of some values."""
    return float(np.var(values, ddof=1)) / len(values), len(values) - 1.0


def standard_error(parts: Sequence[Part]) -> Part:
    """The standard error of a mean with some parts of variance, and its degrees of freedom (Satterthwaite)."""
    variance = sum(part for part, _ in parts)
    return variance**0.5, variance**2 / sum(part**2 / degrees for part, degrees in parts) if variance else 1.0


def t_test(mean: float, parts: Sequence[Part], level: float) -> tuple[tuple[float, float], float]:
    """The interval of a mean, and p of 0."""
    error, degrees = standard_error(parts)
    t = need("scipy.stats", PURPOSE).t(degrees)
    half = error * float(t.ppf(1 - level / 2))
    return (mean - half, mean + half), 2 * float(t.sf(abs(mean) / error))


def is_constant(values: Sequence[float] | np.ndarray) -> bool:
    """Whether values differ by rounding at most: there is no noise to measure by."""
    return float(np.ptp(values)) <= 1e-9 * float(np.abs(values).max())


def unpaired_test(
    variant: Sequence[float], base: Sequence[float], level: float = LEVEL, common: Part = CERTAIN
) -> Estimate:
    """Welch's t-test of runs that share no seed; two or more of each."""
    mean = float(np.mean(variant) - np.mean(base))
    if is_constant(variant) and is_constant(base) and not common[0]:
        return Estimate(mean, (mean, mean), 1.0, None, 0, "unpaired")
    interval, p = t_test(mean, [mean_part(variant), mean_part(base), common], level)
    return Estimate(mean, interval, p, None, 0, "unpaired")


def sign_flip(differences: Sequence[float] | np.ndarray, common: Part = CERTAIN) -> tuple[float, float]:
    """(p, the smallest p that so many pairs can reach), two-sided."""
    d = np.asarray(differences, dtype=float)
    smallest = 2.0 ** (1 - min(len(d), EXACT_UP_TO))
    if not d.any():
        return 1.0, smallest
    stats = need("scipy.stats", PURPOSE)
    result = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", vectorized=True, n_resamples=2**EXACT_UP_TO, rng=0
    )
    if not common[0]:
        return float(result.pvalue), smallest
    farther = stats.norm.sf((abs(d.mean()) - result.null_distribution) / common[0] ** 0.5)  # the patterns come in twos
    return max(smallest, min(1.0, 2 * float(farther.mean()))), smallest


def bootstrap_interval(
    differences: Sequence[float], level: float = LEVEL, common: Part = CERTAIN
) -> tuple[float, float] | None:
    """The BCa interval of the mean; None with fewer than 8 pairs. The same resamples each time."""
    d = np.asarray(differences, dtype=float)
    if len(d) < BOOTSTRAP_FROM:
        return None
    stats, mean = need("scipy.stats", PURPOSE), float(d.mean())
    low = high = mean
    if not is_constant(d):
        low, high = stats.bootstrap(
            (d,), np.mean, confidence_level=1 - level, method="BCa", n_resamples=RESAMPLES, rng=0
        ).confidence_interval
    wide = float(stats.norm.ppf(1 - level / 2)) * common[0] ** 0.5
    return mean - math.hypot(mean - low, wide), mean + math.hypot(high - mean, wide)


def equivalence_p(differences: Sequence[float], effect: float, common: Part = CERTAIN) -> float:
    """p of the claim that the mean lies within -effect and effect."""
    d = np.asarray(differences, dtype=float)
    if is_constant(d) and not common[0]:
        return sign_flip(d)[1] if abs(d[0]) < effect and d.any() else float(abs(d[0]) >= effect)
    error, degrees = standard_error([mean_part(d), common])
    return float(need("scipy.stats", PURPOSE).t(degrees).sf((effect - abs(float(d.mean()))) / error))


def unequal_counts(only_variant: int, only_base: int) -> float:
    """p that a run of the variant and one of the base diverge equally often: McNemar's exact test, two-sided, of the
    seeds at which only one of the two diverged."""
    both = only_variant + only_base
    return float(need("scipy.stats", PURPOSE).binomtest(only_variant, both).pvalue) if both else 1.0


def holm(p: Sequence[float]) -> list[float]:
    """p after Holm's correction (1979): 5 % for at least one false finding among all of them. The i-th smallest of n is
    taken n - i + 1 times, and is no less than those before it.

    `multipletests` of statsmodels says the same, and collects garbage at each call."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.asarray(p, dtype=float)[order] * np.arange(len(p), 0, -1))
    return [float(q) for q in corrected.clip(max=1.0)]
