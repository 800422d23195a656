"""Arms: a variant at one size becomes the complete configuration of its runs, with what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..analysis.accounting import flops_per_unit
from ..api.plan import OUTER
from ..api.reading import TASK
from ..errors import InputError
from ..training.optimizer import optimizers
from ..training.settings import LIMITS
from .costs import Prepared, costs_of, model_text, prepare, step_seconds, units_per_step, with_numbers
from .jobs import settled
from .matching import matched_parameters, matched_steps, steps_in_words
from .records import Arm, Variant
from .settings import ComparisonSettings
from .sizes import Shape, next_shape, scaled, scaled_steps, shape_of
from .variants import settings_fields
from .vary import factor_of

CONTEXTS = {96: 64, 192: 128}  # of language models without one: at most this width -> tokens of a window
LONGEST_CONTEXT = 256
TRIAL = 100  # steps in costs whose steps are not known yet


@dataclass(frozen=True)
class Base:
    """What all arms have in common.

    given  keys of a run's configuration that were typed for all
    shape  the numbers that a wiring without its own takes, at the smallest size
    """

    settings: ComparisonSettings
    given: Mapping[str, Any]
    use: Sequence[str]
    shape: Shape

    @property
    def task(self) -> str:
        return str(self.given.get("task", TASK))

    def config(self, variant: Variant, shape: Shape | None = None) -> dict[str, Any]:
        """A variant's configuration at the smallest size, or in another shape; its steps come later."""
        optimizer = variant.settings.get("optimizer", self.given.get("optimizer"))
        fields = (settings_fields(self.task, optimizer) | {*OUTER}) - {*LIMITS, "model", "use", "from_scratch"}
        config: dict[str, Any] = {"task": self.task, "model": variant.model}
        config |= {"use": [*self.use]} if self.use else {}
        config |= {key: value for key, value in self.given.items() if key in fields}
        config |= {key: value for key, value in variant.settings.items() if key not in LIMITS}
        config = with_numbers(
            config, self.lacking(config) if shape is None else {**self.lacking(config), **shape.numbers}
        )
        return settled(config)

    def lacking(self, config: Mapping[str, Any]) -> dict[str, int]:
        """The numbers of size that a configuration's model does not state itself."""
        text = model_text(config)
        stated = {*text.numbers, *(key for stack in text.stacks for key in stack.numbers)}
        wanted = dict(self.shape.numbers)
        if self.task == TASK:
            wanted["context"] = context_for(self.shape.width)
        return {key: value for key, value in wanted.items() if key not in stated}


def context_for(width: int) -> int:
    """Tokens of a window of a language model of this width that states none."""
    return next((context for most, context in CONTEXTS.items() if width <= most), LONGEST_CONTEXT)


def steps_of(stated: Mapping[str, Any], prepared: Prepared) -> int | None:
    """The steps of a run whose length is said in steps, tokens or passes over the data; None where nothing is said."""
    lengths = []
    if stated.get("steps") is not None:
        lengths.append(int(stated["steps"]))
    if stated.get("tokens") is not None:
        lengths.append(math.ceil(int(stated["tokens"]) / units_per_step(prepared)))
    if stated.get("epochs") is not None:
        lengths.append(prepared.task.steps(float(stated["epochs"])))
    return max(1, min(lengths)) if lengths else None


def shapes_of_sizes(base: Base, variants: Sequence[Variant], count: int) -> list[Shape]:
    """The base variant's shape at each of `count` sizes, the smallest first, such that all variants can have it."""
    prepared = [prepare(base.config(variant)) for variant in variants]
    small = [shape_of(one.architecture) for one in prepared]

    def flops(shape: Shape) -> float | None:
        try:
            return flops_per_unit(prepared[0].resized(shape.numbers))
        except InputError:
            return None

    def fits(shape: Shape) -> bool:
        try:
            for one, own in zip(prepared[1:], small[1:], strict=True):
                one.resized(scaled(own, small[0], shape).numbers)
        except InputError:
            return False
        return True

    shapes = [small[0]]
    while len(shapes) < count:
        shapes.append(next_shape(shapes[-1], base.settings.size_ratio, flops, fits))
    return shapes


def arms_of_size(
    base: Base, variants: Sequence[Variant], size: str, shapes: Sequence[Shape], number: int, probe: bool = True
) -> list[tuple[Arm, Prepared]]:
    """The arms of size `number` (from 0), matched in parameters where that is asked, the base's first. Their steps are
    to come: `with_lengths`."""
    rows: list[tuple[Arm, Prepared]] = []
    for variant in variants:
        own = shape_of(prepare(base.config(variant)).architecture)
        shape = scaled(own, shapes[0], shapes[number]) if number else None
        config, adjusted = base.config(variant, shape), ""
        if base.settings.match == "parameters" and rows:
            config, adjusted = matched_parameters(config, rows[0][0].costs.parameters, variant.levels)
        prepared = prepare(config)
        seconds = step_seconds(prepared) if probe else None
        factor = factor_of(variant.levels.get("lr"))
        if factor is not None:
            config = {**config, "lr": float(f"{factor * (base.settings.rate or default_rate(prepared)):.6g}")}
        middle = float(config["lr"]) if "lr" in config else base.settings.rate or middle_rate(prepared, rows)
        rows.append((Arm(variant.name, size, config, costs_of(prepared, TRIAL, seconds), middle, adjusted), prepared))
    return rows


def middle_rate(prepared: Prepared, rows: Sequence[tuple[Arm, Prepared]]) -> float:
    """The middle of an arm's grid: that of the base with the same optimizer, so that all grids are one; else the
    optimizer's default at the model's width."""
    name = prepared.plan.training.optimizer
    alike = [arm.lr for arm, other in rows if other.plan.training.optimizer == name and "lr" not in arm.config]
    return alike[0] if alike else default_rate(prepared)


def default_rate(prepared: Prepared) -> float:
    """The optimizer's default at the model's width."""
    width = int(prepared.architecture.numbers.get("width", 128))
    return float(f"{optimizers.get(prepared.plan.training.optimizer).default_lr(width):.3g}")


def with_lengths(
    base: Base, variants: Sequence[Variant], rows: Sequence[tuple[Arm, Prepared]], steps: int
) -> list[Arm]:
    """Arms of one size, whose base makes so many steps, matched in what `match` says. An arm that states its own length
    keeps that."""
    stated = {variant.name: variant.settings for variant in variants}
    arms: list[Arm] = []
    for arm, prepared in rows:
        match, own = base.settings.match, steps_of(stated[arm.variant], prepared)
        count, said = own or steps, arm.adjusted
        if arms and own is None:
            count = matched_steps(match, arm.costs, arms[0].costs)
            said = "; ".join(filter(None, [said, steps_in_words(match, arm.costs, count, arms[0].costs)]))
        seconds = arm.costs.step_seconds
        config = {**arm.config, "steps": count}
        arms.append(replace(arm, config=config, costs=costs_of(prepared, count, seconds), adjusted=said))
    return arms


def lengths_of_sizes(steps: int, ratio: float, bases: Sequence[Arm]) -> list[int]:
    """Steps of the base at each size: each costs `ratio` times the FLOPs of the one before."""
    lengths = [steps]
    for small, large in zip(bases, bases[1:], strict=False):
        per_step = [arm.costs.flops / arm.costs.steps for arm in (small, large)]
        lengths.append(scaled_steps(lengths[-1], ratio, *per_step))
    return lengths
