"""How long a comparison takes, and what fits into a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from ..cost.machine import cores, machine_memory
from ..cost.words import about
from ..errors import InputError, setting
from ..training.machine import pick_device
from .arms import Base, lengths_of_sizes
from .costs import Prepared, evaluation_steps, with_steps
from .records import Arm

START = 1.5  # seconds of a run before its first step and after its last
ON_THE_WAY = 0.1  # what evaluations on the way cost, of the training
WHOLE = 2  # evaluations of a run on the whole validation set: its last one, and by parts
BESIDE = 1.15  # how much slower a run is beside others
EXTENDED = 1.2  # rates that the edge of a grid adds, on average
FEWEST_STEPS = 100  # a run below this says little
FEWEST_SEEDS = 3

Rows = Sequence[Sequence[tuple[Arm, Prepared]]]  # arms by size, the base's first
Runs = Mapping[tuple[str, str], float]  # how many an arm has, by its variant and size


def fitting_at_once(memory_bytes: float, device: str, wanted: int | None) -> int:
    """Runs at the same time: as many as wanted, else one for each core as far as memory reaches, or for each GPU."""
    if wanted is not None:
        return wanted
    if pick_device(device).type == "cuda":
        return max(1, torch.cuda.device_count())
    memory = machine_memory()
    return max(1, cores() if memory is None else min(cores(), int(0.8 * memory / memory_bytes)))


def run_seconds(arm: Arm, prepared: Prepared, steps: int) -> float:
    """Seconds of one run of an arm, with its evaluations."""
    counted = steps * (1 + ON_THE_WAY) + WHOLE * evaluation_steps(prepared)
    return START + counted * (arm.costs.step_seconds or 0.0)


def whole_seconds(rows: Iterable[tuple[Arm, Prepared]], runs: Runs, at_once: int) -> float:
    """Seconds of all runs, so many at once; the arms' steps are those of their costs."""
    slower = 1.0 if at_once == 1 else BESIDE
    seconds = (run_seconds(arm, one, arm.costs.steps) * runs[arm.variant, arm.size] for arm, one in rows)
    return slower * sum(seconds) / at_once


def seconds_with_steps(base: Base, rows: Rows, runs: Runs, at_once: int, steps: int) -> float:
    """Seconds of all runs where the base's smallest size makes so many steps."""
    lengths = lengths_of_sizes(steps, base.settings.size_ratio, [size[0][0] for size in rows])
    long = [
        (replace(arm, costs=with_steps(arm.costs, length)), one)
        for size, length in zip(rows, lengths, strict=True)
        for arm, one in size
    ]
    return whole_seconds(long, runs, at_once)


def fitting_steps(base: Base, rows: Rows, runs: Runs, at_once: int, seconds: float) -> int:
    """Steps of the base at the smallest size with which all runs take so many seconds; 0 where none fit."""
    some, more = (seconds_with_steps(base, rows, runs, at_once, steps) for steps in (1000, 2000))
    per_step = (more - some) / 1000
    return max(0, math.floor((seconds - (some - 1000 * per_step)) / per_step)) if per_step else FEWEST_STEPS


def too_short(budget: str, runs: float, steps: int, needed: float) -> InputError:
    """The error for a budget in which nothing sensible fits."""
    what = f"{setting('budget', budget)}: about {runs:.0f} runs of {steps:,} steps and more take {about(needed)}"
    remedy = "give more time, compare fewer variants, lower width, depth or batch"
    return InputError(f"{what}; {remedy}, or ask for less: {setting('protocol', 'quick')}, {setting('lr_points', '3')}")
