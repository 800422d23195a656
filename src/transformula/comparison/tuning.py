"""The learning rate of each arm: the same grid in powers of two for all, around each optimizer's own default.

A curve is fitted to the runs of all arms, see `statistics/rates.py`. Arms whose curves do not differ take the rate at
its best, the others that of their own. Where any best lies at or beyond the edge of the grid, every arm is given one
more rate beyond that edge, so that all have had equally many runs. At a larger size the grid is smaller, around the
best of the size before, by the ratio of the two defaults. Seeds of tuning are used for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..inspection.rate_curves import FittedCurve
from .jobs import interleaved
from .plan import ComparisonPlan, rounded
from .records import Arm, Job, Outcome
from .statistics.rates import RateFit, fit_rates, rate_curve

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
        fit = search(plan, arms, run, tuned)
        for arm in arms:
            fitted, curve = fit.curves.get(arm.variant), rate_curve(tuned.outcomes, *arm.arm_key, plan.lower)
            tuned.rates[arm.arm_key] = arm.lr if fitted is None else rounded(arm.lr * 2.0**fitted.best)
            tuned.sensitivity |= {arm.arm_key: curve.sensitivity} if curve else {}
            tuned.notes += notes_of(arm, fitted)
        for arm in plan.arms_of(size):
            tuned.rates.setdefault(arm.arm_key, untuned(plan, arm, tuned.rates))
    return tuned


def search(plan: ComparisonPlan, arms: Sequence[Arm], run: RunJobs, tuned: Tuned) -> RateFit:
    """The curves of some arms of one size, whose grids go on until no best rate is at an edge."""
    fit, grids = RateFit({}, {}), [grid_of(plan, arm, tuned.rates) for arm in arms]
    ahead = grids
    for _ in range(1 + ROUNDS):
        jobs = interleaved([plan.jobs("tune", *of) for of in zip(arms, ahead, strict=True)])
        if not jobs:
            break
        tuned.outcomes += run(jobs)
        fit = fit_rates(tuned.outcomes, plan.arms, plan.lower)[arms[0].size]
        ahead = [further(rates, fit, all(arm.variant in fit.curves for arm in arms)) for rates in grids]
        grids = [[*rates, *more] for rates, more in zip(grids, ahead, strict=True)]
    return fit


def grid_of(plan: ComparisonPlan, arm: Arm, known: Rates) -> list[float]:
    """The first rates of an arm: all at the smallest size, a few around the best of the size before at the others."""
    rates, place = plan.rates(arm), plan.sizes.index(arm.size)
    if place == 0 or len(rates) <= NARROW:
        return rates
    before = plan.arms_by_key[arm.variant, plan.sizes[place - 1]]
    middle = known[before.arm_key] * arm.lr / before.lr
    return [rounded(middle * 2.0**power) for power in range(-(NARROW // 2), NARROW - NARROW // 2)]


def further(rates: Sequence[float], fit: RateFit, all_work: bool) -> list[float]:
    """The next rates of a grid: beyond each edge at which the best of an arm lies; far below where one has no rate that
    works."""
    edges = {curve.edge for curve in fit.curves.values()}
    low = min(rates) / (2 if all_work else DOWN)
    return [rounded(low)] * (-1 in edges or not all_work) + [rounded(max(rates) * 2)] * (1 in edges)


def untuned(plan: ComparisonPlan, arm: Arm, known: Rates) -> float:
    """The rate of an arm that is not tuned: its own; a shared one is as far from the arm's default as the base's."""
    if plan.settings.lr != "shared" or "lr" in arm.config:
        return arm.lr
    base = plan.arms_by_key[plan.base, arm.size]
    return rounded(arm.lr * known[base.arm_key] / base.lr)


def notes_of(arm: Arm, curve: FittedCurve | None) -> list[str]:
    """What is to be said of an arm's rate."""
    size = "" if arm.size == "only" else f", {arm.size}"
    if curve is None:
        return [f"{arm.variant}{size}: no run that tuned its learning rate ended; {arm.lr:g} is taken"]
    if curve.edge:
        best = rounded(arm.lr * 2.0**curve.best)
        return [f"{arm.variant}{size}: the best learning rate, {best:g}, is still at the edge of those tried"]
    return []
