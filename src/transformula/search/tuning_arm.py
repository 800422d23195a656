"""The tuning arm: as many runs as the wirings get, spent on the base's settings. What it gains is no wiring's."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from ..comparison.costs import Prepared
from .admission import RATE
from .plan import HuntPlan
from .records import Contender

# Values that are tried of each setting, the base's own among them.
CHOICES: Mapping[str, tuple[Any, ...]] = {
    RATE: (0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0),
    "lr_schedule": ("linear", "cosine", "wsd", "constant"),
    "warmup": (0.0, 0.01, 0.05, 0.1, 0.3),
    "final_lr": (0.0, 0.1),
    "weight_decay": (0.0, 0.01, 0.1),
    "clip": (0.0, 0.3, 1.0),
    "dropout": (0.0, 0.05, 0.1, 0.2),
}
CHANGED = 2  # settings of a parent that a candidate changes, at most


def proposed_settings(
    plan: HuntPlan, base: Prepared, parents: list[Mapping[str, Any]], known: set[str], count: int, chance: Random
) -> list[dict[str, Any]]:
    """Settings that were not tried, each a parent's with one or two changed, without what the base has; `known` are
    those that were, as texts."""
    free = {key: values for key, values in CHOICES.items() if readable(plan, key)}
    own = {RATE: 1.0, **base.plan.training.plain(), **base.architecture.numbers}
    proposals: list[dict[str, Any]] = []
    for _ in range(100 * count):
        if len(proposals) == count:
            break
        settings = dict(chance.choice(parents))
        for key in chance.sample([*free], chance.randint(1, CHANGED)):
            settings[key] = chance.choice(free[key])
        settings = {key: value for key, value in settings.items() if own.get(key) != value}
        said = repr(sorted(settings.items()))
        if said not in known:
            known.add(said)
            proposals.append(settings)
    return proposals


def readable(plan: HuntPlan, key: str) -> bool:
    """Whether the base reads a setting, and it was not typed: what was typed stays."""
    if key in plan.given or (key == RATE and "lr" in plan.given):
        return False
    return key != "dropout" or "dropout" in str(plan.base.config["model"])


def settings_candidate(plan: HuntPlan, settings: Mapping[str, Any], name: str, round_: int) -> Contender:
    reason = ", ".join(f"{key} {value}" for key, value in settings.items())
    model = str(plan.base.config["model"])
    return Contender(name, model, reason, "tuning", "base", dict(settings), round=round_)
