"""What a difference is worth in compute: how much more of it the base would need for the same loss.

Between two sizes the base's loss is taken as a power of its cost C, L = A C^-a, the straight line through its two
points in logarithms. A variant of loss L_v that cost C_v is then as good as the base at C' = C (L_v / L)^(-1/a), and

    speed-up = C' / C_v,   log speed-up = (log L - log L_v) / a + log(C / C_v)

The interval is that of the delta method: deviations of the seeds' log losses, paired at the own size, and what the
learning rates may cost (`rates.py`) go through the formula's derivatives. Where the base hardly improves
between the sizes (its slope is less than 3 deviations from 0), or C' is farther from C than the other size, the two
points say nothing, and there is no speed-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from types import MappingProxyType

import numpy as np

from ...cost.ratio import MIN_PAIRS, ratio_of_times
from ...extras import need
from ..records import Arm, Key, Outcome
from .paired import Part, mean_part, standard_error
from .pairs import pair
from .power import LEVEL, PURPOSE
from .rates import RateFit

Interval = tuple[float, float, float]  # estimate, low, high
Runs = Mapping[tuple[str, int, float], Outcome]  # by what pairs them: stage, seed and, of runs that tune it, the rate
CLEAR = 3.0  # deviations that the base's slope must be from 0


def timed(arms: Sequence[Arm], outcomes: Sequence[Outcome], base: str) -> list[Arm]:
    """Arms with the time that their runs took, in the place of the plan's measurement: the base's is the median of its
    runs; another's is that times the ratio in pairs of runs of the same stage, rate and seed, if three such pairs were
    made in turns, else the ratio that the plan measured."""
    runs: dict[Key, dict[tuple[str, int, float], Outcome]] = {}
    for o in outcomes:
        if o.status == "done" and o.seconds > 0:
            runs.setdefault(o.arm_key, {})[o.stage, o.seed, o.lr if o.stage == "tune" else 0.0] = o
    known = {arm.arm_key: arm for arm in arms}
    round_of = {size: len([arm for arm in arms if arm.size == size]) for size in {arm.size for arm in arms}}
    return [with_time(arm, known.get((base, arm.size), arm), runs, round_of[arm.size]) for arm in arms]


def with_time(arm: Arm, base: Arm, runs: Mapping[Key, Runs], arms: int) -> Arm:
    """An arm as `timed` has it, of so many; as it was, where nothing is known of its time beside the base's."""
    ours, theirs = (runs.get(each.arm_key, {}) for each in (arm, base))
    seconds = median(run.seconds for run in theirs.values()) if theirs else base.costs.seconds
    ratio = arm.costs.ratio
    pairs = [(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys())]
    pairs = [pair for pair in pairs if in_one_round(*pair, arms)]
    if arm is not base and (len(pairs) >= MIN_PAIRS or (pairs and ratio is None)):
        ratio = ratio_of_times(*([(run.seconds, run.cpu_seconds) for run in row] for row in zip(*pairs, strict=True)))
    if seconds is None or not arm.costs.steps or (ratio is None and arm is not base):
        return arm
    step = seconds * (ratio.factor if ratio else 1.0) / arm.costs.steps
    return replace(arm, costs=replace(arm.costs, step_seconds=step, time_ratio=ratio or ()))


def in_one_round(one: Outcome, other: Outcome, arms: int) -> bool:
    """Whether two runs ended within the time that a run of each arm takes, so that the machine was the same for both:
    one that the store had already may have met another."""
    return abs(one.ended - other.ended) <= (arms + 1) * max(one.seconds, other.seconds)


def speedups(
    outcomes: Sequence[Outcome], arms: Sequence[Arm], variant: str, base: str, lower: bool,
    fits: Mapping[str, RateFit] = MappingProxyType({}),
) -> dict[str, dict[str, Interval]]:  # fmt: skip
    """By size, the variant's speed-up in `flops` and in `seconds`; sizes that say nothing are left out. For losses:
    a score of which more is better has no power law. `fits`: of the rates, by size."""
    costs = {a.arm_key: a.costs for a in arms if a.variant in (variant, base)}
    sizes = sorted((size for name, size in costs if name == base), key=lambda size: costs[base, size].flops)
    by_size: dict[str, dict[str, Interval]] = {size: {} for size in sizes}
    for place, size in enumerate(sizes if lower and len(sizes) > 1 else []):
        other = sizes[place - 1] if place else sizes[1]
        here = log_losses(outcomes, variant, base, size)
        there = log_losses(outcomes, base, base, other)
        for unit in ("flops", "seconds"):
            keys = (variant, size), (base, size), (base, other)
            needed = [getattr(costs[key], unit) if key in costs else None for key in keys]
            if all(needed) and here is not None and there is not None:
                ratio = costs[variant, size].ratio if unit == "seconds" else None
                uncertain = ratio.log_half if ratio else 0.0
                rates = partial(rate_parts, fits, keys, np.exp([*here.mean(axis=0)[::-1], there[:, 0].mean()]))
                value = speedup(here, there[:, 0], [math.log(cost) for cost in needed if cost], uncertain, rates)
                by_size[size] |= {unit: value} if value else {}
    return by_size


def log_losses(outcomes: Sequence[Outcome], variant: str, base: str, size: str) -> np.ndarray | None:
    """(pairs, 2): log of the base's loss and of the variant's; None with fewer than two pairs, or losses below 0."""
    pairs = pair(outcomes, variant, base, size, lower=True)
    losses = np.array([(pairs.base[seed], pairs.variant[seed]) for seed in pairs.seeds])
    return np.log(losses) if len(losses) > 1 and (losses > 0).all() else None


def rate_parts(
    fits: Mapping[str, RateFit], keys: Sequence[Key], losses: np.ndarray, weights: Sequence[float]
) -> list[Part]:
    """What rates add to the variance of a sum of log losses: of the variant, the base, the base at the other size."""
    (variant, size), (base, _), (_, other) = keys
    ours, theirs, others = weights / losses
    here, there = (fits.get(each, RateFit()) for each in (size, other))
    return [here.error({variant: ours, base: theirs}), there.error({base: others})]


def speedup(
    here: np.ndarray, there: np.ndarray, costs: Sequence[float], uncertain: float = 0.0,
    rates: Callable[[Sequence[float]], list[Part]] = lambda _: [],
) -> Interval | None:  # fmt: skip
    """From log losses at the own size (pairs; base, variant) and the base's at the other (seeds), and log costs: the
    variant's, the base's, and the base's at the other size. `uncertain`: half the interval of the first beside the
    second; infinity, where that is not known: then there is no speed-up. `rates`: what they add, by `rate_parts`."""
    variant_cost, cost, other_cost = costs
    base, ours = here.mean(axis=0)
    distance = cost - other_cost
    slope = -(base - there.mean()) / distance if distance else 0.0
    deviation = math.sqrt(here[:, 0].var(ddof=1) / len(here) + there.var(ddof=1) / len(there)) / abs(distance or 1)
    if slope <= CLEAR * deviation or slope <= 0 or math.isinf(uncertain):
        return None
    gain = (base - ours) / slope
    if abs(gain) > abs(distance):
        return None
    by_slope = gain / slope / distance
    own = here @ np.array([1 / slope + by_slope, -1 / slope])
    parts = [mean_part(own), mean_part(by_slope * there), *rates([-1 / slope, 1 / slope + by_slope, by_slope])]
    error, degrees = standard_error(parts)
    t = float(need("scipy.stats", PURPOSE).t.ppf(1 - LEVEL / 2, degrees))
    center, half = gain + cost - variant_cost, math.hypot(t * error, uncertain)
    low, high = (math.exp(min(max(edge, -50.0), 50.0)) for edge in (center - half, center + half))
    return math.exp(center), low, high
