"""Learning-rate schedules: pure functions of progress, from 0 at the start of a run to 1 at its end.

Progress may be counted in steps, tokens or minutes, so one function serves all limits. Each gives a factor of the peak
learning rate. The warm-up is common to all: a straight line from 0 to 1 over the first `warmup` of the run.

    @schedules.register("triangle")
    def triangle(progress: float, shape: Phases) -> float: ...

A model may have one of its own, by the key `schedule` of its file, which names a schedule and perhaps its shape:
`cosine`, `linear(warmup=0.1)`, `wsd(decay=0.3, final=0.1)`. What the run says itself (`--lr-schedule`, `--warmup`,
`--decay`, `--final-lr`, or its configuration) goes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError, UnknownName
from ..registry import Registry
from .settings import TrainingSettings

if TYPE_CHECKING:
    from torch import nn

    from ..language.graph import Architecture


@dataclass(frozen=True)
class Phases:
    """warmup, decay: shares of the run; final: the last factor. A decay of None is the schedule's own default."""

    warmup: float = 0.02
    decay: float | None = None
    final: float = 0.0


Schedule = Callable[[float, Phases], float]
schedules: Registry[Schedule] = Registry("learning-rate schedule")


def factor(name: str, progress: float, shape: Phases) -> float:
    """The factor of schedule `name` at `progress` (held within 0 and 1), warm-up included. Raises UnknownName."""
    schedule = schedules.get(name)
    progress = min(max(progress, 0.0), 1.0)
    if progress < shape.warmup:
        return progress / shape.warmup
    return schedule(progress, shape)


PHASES = {"warmup": "warmup", "decay": "decay", "final": "final_lr"}  # of `Phases` -> in the settings


def reads_of(name: str) -> set[str]:
    """The settings that a schedule reads: `warmup`, which is common to all, and what it looks at of its shape. Raises
    UnknownName."""
    schedule, seen = schedules.get(name), {"warmup"}

    class Watched(Phases):
        def __getattribute__(self, key: str) -> Any:
            seen.add(key)
            return super().__getattribute__(key)

    for progress in (0.1, 0.5, 1.0):
        schedule(progress, Watched())
    return {key for phase, key in PHASES.items() if phase in seen}


def own_schedule(architecture: Architecture | None) -> dict[str, Any]:
    """The settings that a model's `schedule` says; none if it has no such key. In its text `_` and `-` are one.

    Raises InputError: an unknown schedule, with the nearest; options that it does not have, or out of range.
    """
    if architecture is None or "schedule" not in architecture.hooks:
        return {}
    from ..model.hook import options_by_name, place_of, read_hook

    name, items, options, source = read_hook(architecture, "schedule")
    name = name if name in schedules else name.replace("_", "-")
    try:
        schedules.get(name)
    except UnknownName as error:
        raise InputError(f"{place_of(source)}: {error.message}", near=error.near) from None
    chosen = options_by_name(f"{place_of(source)}: {name}", list(PHASES), items, options)
    own = {"lr_schedule": name, **{PHASES[key]: value for key, value in chosen.items()}}
    try:
        TrainingSettings.read(own)
    except ConfigError as error:
        raise ConfigError(error.mistakes, source=place_of(source), near=error.near) from None
    return own


def with_own_schedule(settings: TrainingSettings, model: nn.Module) -> tuple[TrainingSettings, str]:
    """Settings with the model's schedule, where the run says nothing of its own; and what to say of it."""
    own = own_schedule(getattr(model, "architecture", None))
    if not own:
        return settings, ""
    stated = settings.model_fields_set
    if settings.lr_schedule != own["lr_schedule"] and "lr_schedule" in stated:
        return settings, f" (the run's; the model's own is {own['lr_schedule']})"
    chosen = {key: value for key, value in own.items() if key not in stated}
    return settings.model_copy(update=chosen), " (the model's own)"


@schedules.register("constant")
def constant(progress: float, shape: Phases) -> float:
    """1 throughout."""
    return 1.0


@schedules.register("linear")
def linear(progress: float, shape: Phases) -> float:
    """1, then a straight line to `final` over the last `decay` of the run (0.6; 1 is a line from end to end)."""
    decay = min(0.6 if shape.decay is None else shape.decay, 1 - shape.warmup)
    return 1 - (1 - shape.final) * max(0.0, progress - (1 - decay)) / decay


@schedules.register("wsd")
def wsd(progress: float, shape: Phases) -> float:
    """Warmup-stable-decay: 1, then `final + (1 - final) (1 - sqrt(t))` over the last `decay` (0.2), t from 0 to 1.

    Hu et al. 2024 (MiniCPM) name it; the square root is from Haegele et al. 2024, "Scaling laws and compute-optimal
    training beyond fixed training durations".
    """
    decay = min(0.2 if shape.decay is None else shape.decay, 1 - shape.warmup)
    return 1 - (1 - shape.final) * math.sqrt(max(0.0, progress - (1 - decay)) / decay)


@schedules.register("cosine")
def cosine(progress: float, shape: Phases) -> float:
    """Half a cosine from 1 to `final` (Loshchilov and Hutter 2017)."""
    through = (progress - shape.warmup) / (1 - shape.warmup)
    return shape.final + (1 - shape.final) * 0.5 * (1 + math.cos(math.pi * through))


@schedules.register("noam")
@schedules.register("inverse-square-root")
def inverse_square_root(progress: float, shape: Phases) -> float:
    """sqrt(warmup / progress), not below `final` (Vaswani et al. 2017); without a warm-up, as if it were 1 %.

    Over the peak it is Noam's schedule, which is written with its own peak: at step s, with w steps of warm-up and the
    model's width d, d^-0.5 min(s^-0.5, s w^-1.5) = (d w)^-0.5 min(s / w, sqrt(w / s)): a peak of 0.0007 with width 512
    and 4,000 steps.
    """
    start = shape.warmup or 0.01
    return max(shape.final, math.sqrt(start / max(progress, start)))
