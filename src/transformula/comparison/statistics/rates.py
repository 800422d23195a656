"""The score against the learning rate: where it is best, which arms may share a rate, what a rate may cost.

Curves are fitted by `inspection/rate_curves.py`. Arms of one optimizer have one, unless the data say otherwise; of
several arms, by Holm's correction. Then they train at one rate.

A run at the rate r loses curvature (r - m)^2 to the best one, m. Where m is known with variance v, the rate at the
fitted best costs curvature v on average, with variance 2 (curvature v)^2. All pairs of a comparison have it alike, so
no number of seeds tells it from a difference, unless both arms have one curve and one rate: then it cancels. Else the
root mean square of the difference of both costs is a part of the standard error. It is taken over draws of slopes and
curvatures, by which a flat curve costs little, and nothing is said of rates that were not tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...inspection.rate_curves import (
    TINY,
    FittedCurve,
    Losses,
    RateCurve,
    curve_of,
    curves_of,
    mean_score,
    same_curve_p,
    without_cliffs,
)
from ..records import Arm, Outcome, outcomes_of
from .paired import CERTAIN, Part, holm
from .power import LEVEL


@dataclass(frozen=True)
class RateFit:
    """The curves of the arms of one size whose rates were tuned; arms that share a curve have the same object.

    p     that an arm's curve is that of the first arm of its optimizer, after Holm's correction
    used  octaves from the default of the rate at which an arm's runs confirm
    """

    curves: dict[str, FittedCurve] = field(default_factory=dict)
    p: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)

    def error(self, weights: Mapping[str, float]) -> Part:
        """What the rates add to the variance of a sum of arms' scores, by the weight of each, and the degrees of
        freedom by which that is known; nothing where the rate of one was not tuned."""
        if not weights.keys() <= self.curves.keys() & self.used.keys():
            return CERTAIN
        lost = sum(weight * self.curves[name].cost(self.used[name]) for name, weight in weights.items())
        degrees = min(self.curves[name].degrees for name in weights)
        variance = float(np.mean(np.square(lost)))
        return (variance, max(1.0, degrees)) if variance > TINY else CERTAIN

    def lost(self, name: str, draws: int) -> np.ndarray:
        """(draws,): what an arm's rate costs in draws of its curve; 0 where it was not tuned."""
        tuned = name in self.curves.keys() & self.used.keys()
        return self.curves[name].cost(self.used[name])[1 : draws + 1] if tuned else np.zeros(draws)


def fit_rates(outcomes: Sequence[Outcome], arms: Sequence[Arm], lower: bool) -> dict[str, RateFit]:
    """The curves at each size, the smallest first; arms that differ at one size differ at those above it."""
    apart: set[str] = set()
    fits = {}
    for size in dict.fromkeys(arm.size for arm in arms):
        here = [arm for arm in arms if arm.size == size]
        fit = RateFit({}, {}, {a.variant: octaves(o.lr, a) for a in here for o in outcomes_of(outcomes, *a.arm_key)})
        runs = {arm.variant: losses_of(outcomes, arm, lower) for arm in here}
        groups: dict[str, list[str]] = {}
        for arm in here:
            if any(map(math.isfinite, runs[arm.variant].values())):
                groups.setdefault(str(arm.config.get("optimizer")), []).append(arm.variant)
        for first, *others in groups.values():
            asked = [name for name in others if name not in apart]
            fit.p.update(zip(asked, holm([same_curve_p(runs[first], runs[name]) for name in asked]), strict=True))
            apart |= {name for name in asked if fit.p[name] < LEVEL}
            classes = [[first, *(n for n in others if n not in apart)], *([n] for n in others if n in apart)]
            curves = curves_of([[runs[name] for name in names] for names in classes])
            fit.curves.update((name, curve) for names, curve in zip(classes, curves, strict=True) for name in names)
        fits[size] = fit
    return fits


def losses_of(outcomes: Sequence[Outcome], arm: Arm, lower: bool) -> Losses:
    """The runs that tuned an arm's rate; for a score of which more is better, its negative."""
    sign = 1.0 if lower else -1.0
    losses = {
        (octaves(o.lr, arm), o.seed): math.inf if o.score is None or o.status != "done" else sign * o.score
        for o in outcomes_of(outcomes, arm.variant, arm.size, "tune")
        if o.status != "failed"
    }
    return without_cliffs(losses)


def octaves(rate: float, arm: Arm) -> float:
    """How far a rate is from the arm's default."""
    return round(math.log2(rate / arm.lr), 3)


def rate_curve(outcomes: Sequence[Outcome], variant: str, size: str, lower: bool) -> RateCurve | None:
    """The curve of an arm's runs that tuned its rate; None without one that ended."""
    by_rate: dict[float, list[float | None]] = {}
    for o in outcomes_of(outcomes, variant, size, "tune"):
        if o.status != "failed":
            by_rate.setdefault(o.lr, []).append(o.score if o.status == "done" else None)
    return curve_of({rate: mean_score(scores) for rate, scores in by_rate.items()}, lower)
