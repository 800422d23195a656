"""The score against the learning rate: where it is best, whether the grid holds the best, how much the rate matters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..records import Outcome, outcomes_of

MAX_FACTOR = 4.2  # the sensitivity is taken over rates from 1/4 to 4 times the best, with room for rounding


@dataclass(frozen=True)
class RateCurve:
    """Scores over the rates that were tried, the mean over seeds at each; None where a run diverged or failed.

    best         the tried rate of the best score; at_edge: it is the smallest or the largest that was tried
    optimum      of the parabola in log rate through the best and its two neighbors; the best where there is none
    sensitivity  E over the grid of [score, but at most one that diverged, minus the best], in the score's unit: 0 where
                 the rate does not matter (Wortsman et al. 2023, 2309.14322, eq. 1)
    """

    scores: tuple[tuple[float, float | None], ...]
    best: float
    at_edge: bool
    optimum: float
    sensitivity: float


def rate_curve(outcomes: Sequence[Outcome], variant: str, size: str, lower: bool) -> RateCurve | None:
    """The curve of an arm's runs that tuned its rate; None without one that ended."""
    by_rate: dict[float, list[float | None]] = {}
    for o in outcomes_of(outcomes, variant, size, "tune"):
        if o.status != "failed":
            by_rate.setdefault(o.lr, []).append(o.score if o.status == "done" else None)
    return curve_of({rate: mean_score(scores) for rate, scores in by_rate.items()}, lower)


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
        parabola([(r, losses.get(r)) for r in rates[max(0, place - 1) : place + 2]], best),
        sensitivity([losses.get(r) for r in rates if 1 / MAX_FACTOR <= r / best <= MAX_FACTOR], losses[best]),
    )


def sensitivity(losses: Sequence[float | None], best: float) -> float:
    """The mean excess over the best. The source bounds a loss by that at initialization; here by twice the best; for a
    score of which more is better, by 0."""
    most = abs(best)
    return float(np.mean([most if loss is None else min(loss - best, most) for loss in losses]))


def parabola(points: Sequence[tuple[float, float | None]], best: float) -> float:
    """The rate of the smallest loss on the parabola in log rate through three points."""
    known = [(math.log(rate), loss) for rate, loss in points if loss is not None]
    if len(known) < 3:
        return best
    a, b, _ = np.polyfit([place for place, _ in known], [loss for _, loss in known], 2)
    return math.exp(-b / (2 * a)) if a > 0 else best
