"""The loss against the learning rate: a parabola near its best, and which models have one curve.

Near its best the loss of model a with seed s, at x = log2(rate / the default), is

    y = level_as + slope_a x + curvature_a x^2 + noise,   best at m_a = -slope_a / (2 curvature_a)

fitted by least squares to all runs that ended, but for rates at which the loss jumps. A run at u octaves from the best
counts (1 - (u / REACH)^3)^3: far from it no curve is a parabola (local regression, Cleveland 1979). Two models have one
curve unless pairs of their runs say otherwise: the difference of two runs of one seed and one rate is regressed on a
level for each seed, x and x^2, and the latter two are tested together. A seed's luck is alike at neighboring rates: its
differences at x and x' are taken to correlate by exp(-|x - x'| / ALIKE) (generalized least squares).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any
from warnings import catch_warnings

import numpy as np

from ..extras import need

PURPOSE = "curves over learning rates"
LEVEL = 0.05  # of its tests; intervals are of 1 - LEVEL
REACH = 2.5  # octaves from the best, beyond which no run counts
ALIKE = 2.0  # octaves, by which equal models are told apart in 5 % of cases (benchmarks/seed_noise.py)
NEAR = 1.0  # octaves from the best: where one arm diverges here and the other does not, they differ
STEPS = 4  # rates in an octave, to which a fitted best is rounded: it costs at most curvature / 64
PASSES = 5  # of the fit, each around the best of the one before
DRAWS = 2000
FAR, FAR_SHARE = 8.0, 0.15  # times what the better half of the other rates is above the best, and of the best's loss
TINY = 1e-18  # a sum of squares that is rounding

Losses = Mapping[tuple[float, int], float]  # (octaves from the default, seed) -> loss; infinite where it diverged
MAX_FACTOR = 4.2  # the sensitivity is taken over rates from 1/4 to 4 times the best, with room for rounding


@dataclass(frozen=True)
class RateCurve:
    """Scores over the rates that were tried, the mean over seeds at each; None where a run diverged or failed.

    best         the tried rate of the best score; at_edge: it is the smallest or the largest that was tried
    sensitivity  E over the grid of [score, but at most one that diverged, minus the best], in the score's unit: 0 where
                 the rate does not matter (Wortsman et al. 2023, 2309.14322, eq. 1)
    """

    scores: tuple[tuple[float, float | None], ...]
    best: float
    at_edge: bool
    sensitivity: float


@dataclass(frozen=True)
class FittedCurve:
    """A parabola of the loss over octaves from the default rate.

    best     its best place, in parts of an octave, so that comparisons meet each other's runs
    edge     -1, 1: the best lies at or beyond the lowest, the highest place that was tried; else 0
    center   where the draws have their slopes; span: the lowest and the highest place that the parabola is said of
    draws    (draws, 2): slope and curvature; the first row is the fit
    degrees  of freedom by which its noise is known
    """

    best: float
    edge: int
    center: float
    span: tuple[float, float]
    draws: np.ndarray
    degrees: float

    def above(self, places: np.ndarray | float) -> np.ndarray:
        """(draws,): the loss at a place, of each draw its own, above that at the center."""
        u = places - self.center
        return np.asarray(self.draws[:, 0] * u + self.draws[:, 1] * u**2)

    @cached_property
    def bests(self) -> np.ndarray:
        """(draws,): the best place within the span."""
        low, high = self.span
        ends = np.where(self.above(low) <= self.above(high), low, high)
        bottoms = np.clip(self.center + bottom(*self.draws.T), low, high)
        return np.asarray(np.where(self.draws[:, 1] > 0, bottoms, ends))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the best place within the span, wider by what `best` is rounded."""
        low, high = np.quantile(self.bests, [LEVEL / 2, 1 - LEVEL / 2]) + np.array([-0.5, 0.5]) / STEPS
        return max(float(low), self.span[0]), min(float(high), self.span[1])

    def cost(self, place: float) -> np.ndarray:
        """(draws,): what a rate loses to the best one."""
        return np.asarray(self.above(place) - self.above(self.bests))


def best_place(runs: Iterable[tuple[float, float]]) -> float:
    """The place of the lowest mean loss, of (place, loss) of runs; where some diverge at each, that of the best run."""
    by_place: dict[float, list[float]] = {}
    for place, loss in runs:
        by_place.setdefault(place, []).append(loss)
    return min(by_place, key=lambda place: (fmean(by_place[place]), min(by_place[place])))


def without_cliffs(losses: Losses) -> Losses:
    """The runs, those at a rate whose mean lies far above the others' counted as diverged: no parabola has a cliff."""
    ended: dict[float, list[float]] = {}
    for (place, _), loss in losses.items():
        ended.setdefault(place, []).extend([loss] if loss < math.inf else [])
    means = {place: fmean(each) for place, each in ended.items() if each}
    lowest = min(means.values(), default=0.0)

    def is_far(place: float) -> bool:
        others = sorted(mean - lowest for at, mean in means.items() if at != place)
        near = others[: max(3, len(others) // 2 + 1)]
        far = max(FAR * fmean(near), FAR_SHARE * abs(lowest)) if len(others) > 2 else math.inf
        return means.get(place, math.inf) - lowest > far

    far = {place for place in means if is_far(place)}
    return {(place, seed): math.inf if place in far else loss for (place, seed), loss in losses.items()}


def same_curve_p(one: Losses, other: Losses) -> float:
    """p that the difference of two arms does not change with the rate; 0 where near their best all runs of one diverge
    and none of the other's, 1 where there are too few pairs to say."""
    pairs = {key: other[key] - one[key] for key in one.keys() & other.keys() if max(one[key], other[key]) < math.inf}
    if not pairs:
        return 0.0
    best = best_place((place, one[place, seed] + other[place, seed]) for place, seed in pairs)
    ended, others = ({(at, loss < math.inf) for (at, _), loss in losses.items()} for losses in (one, other))
    at = {place for place, _ in ended & others}
    if any(abs(place - best) <= NEAR for place, _ in ended ^ others if place not in at):
        return 0.0
    keys = sorted(key for key in pairs if abs(key[0] - best) <= REACH)
    levels, y = indicators([seed for _, seed in keys]), np.array([pairs[key] for key in keys])
    u = np.array([place - best for place, _ in keys])
    alike = (levels @ levels.T) * np.exp(-np.abs(u[:, None] - u) / ALIKE)
    whiten = np.linalg.inv(np.linalg.cholesky(alike))
    levels, curves = whiten @ levels, whiten @ np.column_stack([u, u**2])
    return f_test(least_squares(levels, whiten @ y), least_squares(np.column_stack([levels, curves]), whiten @ y))


def indicators(kinds: Sequence[Hashable]) -> np.ndarray:
    """(runs, kinds): 1 where a run is of a kind, in the order in which they come."""
    return np.array([[kind == one for one in dict.fromkeys(kinds)] for kind in kinds], dtype=float)


def least_squares(design: np.ndarray, y: np.ndarray, weights: np.ndarray | float = 1.0) -> Any:
    with catch_warnings(action="ignore"):  # of columns that depend on each other, which too few rates leave
        return need("statsmodels.regression.linear_model", PURPOSE).WLS(y, design, weights=weights).fit()


def degrees_of(fit: Any) -> float:
    """Degrees of freedom, a run counting as its weight."""
    return float(fit.model.weights.sum() - fit.model.rank)


def f_test(plain: Any, whole: Any) -> float:
    """p of a plain fit beside one with further columns; 1 where nothing is left to measure noise by."""
    added, degrees = whole.model.rank - plain.model.rank, degrees_of(whole)
    if added < 1 or degrees < 1 or plain.ssr <= TINY:
        return 1.0
    f = (plain.ssr - whole.ssr) / added / max(whole.ssr / degrees, TINY)
    return float(need("scipy.stats", PURPOSE).f.sf(f, added, degrees))


def bottom(slope: Any, curvature: Any) -> Any:
    """Where a parabola is flat, from where it has this slope."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return -slope / (2 * curvature)


def curves_of(classes: Sequence[Sequence[Losses]]) -> list[FittedCurve]:
    """A curve for each class of arms, all of one curvature unless they differ in it at LEVEL."""
    tried = [[(place, loss) for losses in arms for (place, _), loss in losses.items()] for arms in classes]
    runs = [
        (n, (n, arm, seed), place, loss)
        for n, arms in enumerate(classes)
        for arm, losses in enumerate(arms)
        for (place, seed), loss in losses.items()
        if loss < math.inf
    ]
    own, levels = indicators([run[0] for run in runs]), indicators([run[1] for run in runs])
    x, y = np.array([run[2:] for run in runs]).T
    ends = np.array([(x[one == 1].min(), x[one == 1].max()) for one in own.T])
    slopes = slice(levels.shape[1], levels.shape[1] + len(classes))

    def fitted(center: np.ndarray, bends: np.ndarray) -> Any:
        u = x - own @ center
        columns = np.column_stack([levels, own * u[:, None], bends * u[:, None] ** 2])
        return least_squares(columns, y, np.clip(1 - np.abs(u / REACH) ** 3, 0, None) ** 3)

    start, one_bend = np.array([best_place(each) for each in tried]), np.ones((len(y), 1))
    center = start
    for _ in range(PASSES):
        fit = fitted(center, one_bend)
        if fit.params[-1] <= 0:
            center = start
            break
        center = np.clip(center + np.clip(bottom(fit.params[slopes], fit.params[-1]), -NEAR, NEAR), *ends.T)
    fit, bent = fitted(center, one_bend), fitted(center, own)
    fit = bent if f_test(fit, bent) < LEVEL else fit
    noise = fit.ssr / degrees_of(fit) if degrees_of(fit) >= 1 else 0.0
    covariance = noise * fit.normalized_cov_params
    draws = np.random.default_rng(0).multivariate_normal(fit.params, covariance, DRAWS, check_valid="ignore")
    draws[0] = fit.params
    bends = np.broadcast_to(draws[:, slopes.stop :], (DRAWS, len(classes)))
    by_class = np.stack([draws[:, slopes], bends], axis=-1).swapaxes(0, 1)
    return [fitted_curve(*facts, degrees_of(fit)) for facts in zip(tried, ends, center, by_class, strict=True)]


def fitted_curve(
    tried: Sequence[tuple[float, float]], ends: np.ndarray, center: float, draws: np.ndarray, degrees: float
) -> FittedCurve:
    """The curve of one class; of one that does not bend upward, the best is that of the rates that were tried."""
    places = [place for place, _ in tried]
    best = center + bottom(*draws[0]) if draws[0, 1] > 0 else best_place(tried)
    (first, last), margin = ends, 0.5 / STEPS
    edge = int(best > last - margin and last == max(places)) - int(best < first + margin and first == min(places))
    best = float(np.clip(round(STEPS * best) / STEPS, *ends))
    low, high = np.clip(ends, center - REACH, center + REACH)
    return FittedCurve(best, edge, float(center), (low, high), draws, degrees)


def mean_score(scores: Sequence[float | None]) -> float | None:
    ended = [score for score in scores if score is not None and math.isfinite(score)]
    return float(np.mean(ended)) if len(ended) == len(scores) else None


def curve_of(scores: Mapping[float, float | None], lower: bool) -> RateCurve | None:
    """The curve of the mean score at each rate; None where no rate has one."""
    rates = sorted(scores)
    losses = {rate: score if lower else -score for rate in rates if (score := scores[rate]) is not None}
    if not losses:
        return None
    best = min(losses, key=lambda rate: losses[rate])
    place = rates.index(best)
    return RateCurve(
        tuple((rate, scores[rate]) for rate in rates),
        best,
        place in (0, len(rates) - 1),
        sensitivity([losses.get(r) for r in rates if 1 / MAX_FACTOR <= r / best <= MAX_FACTOR], losses[best]),
    )


def sensitivity(losses: Sequence[float | None], best: float) -> float:
    """The mean excess over the best. The source bounds a loss by that at initialization; here by twice the best; for a
    score of which more is better, by 0."""
    most = abs(best)
    return float(np.mean([most if loss is None else min(loss - best, most) for loss in losses]))
