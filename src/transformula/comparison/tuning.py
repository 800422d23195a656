"""The learning rate of each arm: the same grid in powers of two for all, around each optimizer's own default.

Where the best rate of any arm lies at the edge of its grid, every arm is given one more: that arm beyond the edge, the
others between their best rate and its better neighbor, so that all have had equally many runs. At a larger size the
grid is smaller, around the best of the size before, by the ratio of the two defaults. Seeds of tuning are used for
nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .jobs import interleaved
from .plan import ComparisonPlan, rounded
from .records import Arm, Job, Outcome
from .statistics.rates import RateCurve, rate_curve

ROUNDS = 4  # of further rates, at most
NARROW = 3  # rates of the grid at a size above the smallest
DOWN = 4.0  # how far below the grid it goes on where no rate of it works

Rates = dict[tuple[str, str], float]
RunJobs = Callable[[Sequence[Job]], list[Outcome]]


@dataclass
class Tuned:
    """What tuning found.

    rates     (variant, size) -> rate; sensitivity: how much the score changes over the grid, by the same keys
    outcomes  of all its runs; notes: what did not go as planned, in sentences
    """

    rates: Rates = field(default_factory=dict)
    sensitivity: Rates = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def tune(plan: ComparisonPlan, run: RunJobs) -> Tuned:
    """The learning rates of all arms, the smallest size first."""
    tuned = Tuned()
    for size in plan.sizes:
        arms = [arm for arm in plan.arms_of(size) if plan.tuned(arm)]
        curves = search(plan, arms, run, tuned)
        for arm, curve in zip(arms, curves, strict=True):
            key = arm.arm_key
            tuned.rates[key] = arm.lr if curve is None else curve.best
            if curve is not None:
                tuned.sensitivity[key] = curve.sensitivity
            tuned.notes += notes_of(arm, curve)
        for arm in plan.arms_of(size):
            tuned.rates.setdefault((arm.variant, size), untuned(plan, arm, tuned.rates))
    return tuned


def search(plan: ComparisonPlan, arms: Sequence[Arm], run: RunJobs, tuned: Tuned) -> list[RateCurve | None]:
    """The curves of some arms of one size, whose grids go on until no best rate is at an edge."""
    grids = [grid_of(plan, arm, tuned.rates) for arm in arms]
    curves: list[RateCurve | None] = []
    ahead = grids
    for _ in range(1 + ROUNDS if arms else 0):
        tuned.outcomes += run(interleaved([plan.jobs("tune", *of) for of in zip(arms, ahead, strict=True)]))
        curves = [rate_curve(tuned.outcomes, arm.variant, arm.size, plan.lower) for arm in arms]
        if all(curve is not None and not curve.at_edge for curve in curves):
            break
        ahead = [[further(curve, rates, plan.lower)] for curve, rates in zip(curves, grids, strict=True)]
        grids = [[*rates, *more] for rates, more in zip(grids, ahead, strict=True)]
    return curves


def grid_of(plan: ComparisonPlan, arm: Arm, known: Rates) -> list[float]:
    """The first rates of an arm: all at the smallest size, a few around the best of the size before at the others."""
    rates, place = plan.rates(arm), plan.sizes.index(arm.size)
    if place == 0 or len(rates) <= NARROW:
        return rates
    before = plan.arms_by_key[arm.variant, plan.sizes[place - 1]]
    middle = known[before.arm_key] * arm.lr / before.lr
    return [rounded(middle * 2.0**power) for power in range(-(NARROW // 2), NARROW - NARROW // 2)]


def further(curve: RateCurve | None, rates: Sequence[float], lower: bool) -> float:
    """The next rate of a grid: beyond the edge where the best lies there, else between it and its better neighbor."""
    if curve is None:
        return rounded(min(rates) / DOWN)
    tried = [rate for rate, _ in curve.scores]
    place = tried.index(curve.best)
    if place == 0:
        return rounded(curve.best / 2)
    if place == len(tried) - 1:
        return rounded(curve.best * 2)

    def loss(neighbor: tuple[float, float | None]) -> float:
        return math.inf if neighbor[1] is None else neighbor[1] if lower else -neighbor[1]

    neighbor, _ = min(curve.scores[place - 1], curve.scores[place + 1], key=loss)
    return rounded(math.sqrt(curve.best * neighbor))


def untuned(plan: ComparisonPlan, arm: Arm, known: Rates) -> float:
    """The rate of an arm that is not tuned: its own; a shared one is as far from the arm's default as the base's."""
    if plan.settings.lr != "shared" or "lr" in arm.config:
        return arm.lr
    base = plan.arms_by_key[plan.base, arm.size]
    return rounded(arm.lr * known[base.arm_key] / base.lr)


def notes_of(arm: Arm, curve: RateCurve | None) -> list[str]:
    """What is to be said of an arm's rate."""
    size = "" if arm.size == "only" else f", {arm.size}"
    if curve is None:
        return [f"{arm.variant}{size}: no run that tuned its learning rate ended; {arm.lr:g} is taken"]
    if curve.at_edge:
        return [f"{arm.variant}{size}: the best learning rate, {curve.best:g}, is still at the edge of those tried"]
    return []
