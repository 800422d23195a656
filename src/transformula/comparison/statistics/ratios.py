"""How many times as long does one thing take as another? From pairs that were measured side by side.

What else the machine does slows both of a pair, and cancels in their ratio. Of the log ratios r_1 ... r_k of pairs

    ratio     exp(median)
    interval  exp(mean -+ t s / sqrt(k)), 99 %, and no narrower than 2 % to either side: equal programs differ by
              about so much on one machine, by where their memory happens to lie

A ratio whose interval holds 1 may be noise: 1 is counted with in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median, stdev

from ...extras import need
from ..records import Arm, Key, Outcome, Ratio
from .power import PURPOSE

LEVEL = 0.01  # of intervals of ratios
RESOLUTION = 0.02  # of the machine: see above
MIN_PAIRS = 3
Pair = tuple[float, float]


def ratio_of_times(ours: Sequence[Pair], theirs: Sequence[Pair]) -> Ratio:
    """From (seconds, seconds of processors) of each of some things, measured in turns: by the latter, where all have
    them."""
    by_cpu = all(cpu > 0 for _, cpu in [*ours, *theirs])
    logs = [math.log(one[by_cpu] / other[by_cpu]) for one, other in zip(ours, theirs, strict=True)]
    middle = median(logs)
    if len(logs) < MIN_PAIRS:
        return Ratio(math.exp(middle), 0.0, math.inf)
    t = float(need("scipy.special", PURPOSE).stdtrit(len(logs) - 1, 1 - LEVEL / 2))
    half = max(t * stdev(logs) / math.sqrt(len(logs)), RESOLUTION if any(logs) else 0.0)
    center = fmean(logs)
    return Ratio(*map(math.exp, (middle, min(middle, center) - half, max(middle, center) + half)))


def timed(arms: Sequence[Arm], outcomes: Sequence[Outcome], base: str) -> list[Arm]:
    """Arms with the time that their runs took, in the place of the plan's measurement: the base's is the median of its
    runs; another's is that times the ratio in pairs of runs of the same stage, rate and seed."""
    runs: dict[Key, dict[tuple[str, int, float], Pair]] = {}
    for o in outcomes:
        if o.status == "done" and o.seconds > 0:
            pair = o.stage, o.seed, o.lr if o.stage == "tune" else 0.0
            runs.setdefault(o.arm_key, {})[pair] = o.seconds, o.cpu_seconds
    known = {arm.arm_key: arm for arm in arms}
    return [with_time(arm, known.get((base, arm.size), arm), runs) for arm in arms]


def with_time(arm: Arm, base: Arm, runs: Mapping[Key, Mapping[tuple[str, int, float], Pair]]) -> Arm:
    ours, theirs = (runs.get(each.arm_key, {}) for each in (arm, base))
    seconds = median(wall for wall, _ in theirs.values()) if theirs else base.costs.seconds
    pairs, ratio = sorted(ours.keys() & theirs.keys()), arm.costs.ratio
    if pairs and arm != base:
        ratio = ratio_of_times([ours[pair] for pair in pairs], [theirs[pair] for pair in pairs])
    if seconds is None or not arm.costs.steps or (ratio is None and arm != base):
        return arm
    step = seconds * (ratio.factor if ratio else 1.0) / arm.costs.steps
    return replace(arm, costs=replace(arm.costs, step_seconds=step, time_ratio=ratio or ()))
