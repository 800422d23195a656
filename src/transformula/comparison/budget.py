"""How long a comparison takes, and what fits into a time."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import torch

from ..cost.machine import cores, machine_memory
from ..cost.words import about
from ..errors import InputError, setting
from ..training.machine import pick_device
from .costs import evaluation_steps, prepare, with_steps
from .plan import ComparisonPlan
from .records import Arm

START = 1.5  # seconds of a run before its first step and after its last
ON_THE_WAY = 0.1  # what evaluations on the way cost, of the training
BESIDE = 1.15  # how much slower a run is beside others
EXTENDED = 1.2  # rates that the edge of a grid adds, on average
FEWEST_STEPS = 100  # a run below this says little
FEWEST_SEEDS = 3


def fitting_at_once(memory_bytes: float, device: str, wanted: int | None) -> int:
    """Runs at the same time: as many as wanted, else one for each core as far as memory reaches, or for each GPU."""
    if wanted is not None:
        return wanted
    if pick_device(device).type == "cuda":
        return max(1, torch.cuda.device_count())
    memory = machine_memory()
    return max(1, cores() if memory is None else min(cores(), int(0.8 * memory / memory_bytes)))


def expected_runs(plan: ComparisonPlan, arm: Arm) -> float:
    """Runs of an arm in all stages, with those that an extended grid adds on average."""
    return plan.runs(arm) and len(plan.seeds) + EXTENDED * plan.tuning_runs(arm)


def run_seconds(arm: Arm, scored: float = 1) -> float:
    """Seconds of one run of an arm, which is scored on the whole validation set so many times."""
    counted = arm.costs.steps * (1 + ON_THE_WAY) + scored * evaluation_steps(prepare(arm.config))
    return START + counted * (arm.costs.step_seconds or 0.0)


def whole_seconds(plan: ComparisonPlan) -> float:
    """Seconds of all runs of a plan; those that confirm are scored by parts and in windows of other lengths, too."""
    slower, more = 1.0 if plan.at_once == 1 else BESIDE, (1 + len(plan.settings.contexts)) * len(plan.seeds)
    runs = {arm.arm_key: expected_runs(plan, arm) for arm in plan.arms if plan.runs(arm)}
    each = {key: run_seconds(plan.arms_by_key[key], 1 + more / count) for key, count in runs.items()}
    return slower * sum(each[key] * count for key, count in runs.items()) / plan.at_once


def seconds_with_steps(plan: ComparisonPlan, steps: int) -> float:
    """Seconds of all runs where the base's smallest size makes so many steps."""
    lengths = dict(zip(plan.sizes, lengths_of_sizes(steps, plan), strict=True))
    arms = [replace(arm, costs=with_steps(arm.costs, lengths[arm.size])) for arm in plan.arms]
    return whole_seconds(replace(plan, arms=arms))


def fitting_steps(plan: ComparisonPlan, seconds: float) -> int:
    """Steps of the base at the smallest size with which all runs take so many seconds; 0 where none fit."""
    some, more = (seconds_with_steps(plan, steps) for steps in (1000, 2000))
    per_step = (more - some) / 1000
    return max(0, math.floor((seconds - (some - 1000 * per_step)) / per_step)) if per_step else FEWEST_STEPS


def lengths_of_sizes(steps: int, plan: ComparisonPlan) -> list[int]:
    """Steps of the base at each size: each costs `size_ratio` times the FLOPs of the one before."""
    lengths = [steps]
    for small, large in pairwise(plan.base_arms):
        per_step, larger = (arm.costs.flops / arm.costs.steps for arm in (small, large))
        lengths.append(max(1, round(lengths[-1] * plan.settings.size_ratio * per_step / larger)))
    return lengths


def too_short(plan: ComparisonPlan, budget: str, steps: int) -> InputError:
    """The error for a budget in which a plan of so many steps does not fit."""
    runs, needed = sum(expected_runs(plan, arm) for arm in plan.arms), about(seconds_with_steps(plan, steps))
    what = f"{setting('budget', budget)}: about {runs:.0f} runs of {steps:,} steps and more take {needed}"
    remedy = "give more time, compare fewer variants, lower width, depth or batch"
    return InputError(f"{what}; {remedy}, or ask for less: {setting('protocol', 'quick')}, {setting('lr_points', '3')}")
