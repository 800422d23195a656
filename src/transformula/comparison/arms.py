"""Arms: a variant at one size becomes the complete configuration of its runs, with what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..analysis.accounting import flops_per_unit
from ..analysis.sizes import SHAPES, Shape, grown, next_shape, shape_of
from ..api.configuration import settings_fields
from ..api.identity import identity_of, settled
from ..api.plan import OUTER
from ..api.reading import TASK
from ..errors import InputError
from ..training.optimizer import optimizers
from ..training.settings import LIMITS
from .costs import Prepared, costs_of, faster_precision, model_text, prepare, step_seconds, units_per_step, with_numbers
from .matching import matched_parameters, matched_steps
from .plan import rounded
from .records import Arm, Variant
from .settings import ComparisonSettings
from .vary import AUTO, factor_of

CONTEXTS = {96: 64, 192: 128}  # of language models without one: at most this width -> tokens of a window
LONGEST_CONTEXT = 256
TRIAL = 100  # steps in costs whose steps are not known yet


@dataclass(frozen=True)
class Request:
    """What was asked for.

    given      keys of a run's configuration that were typed for all variants
    shape      the numbers that a wiring without its own takes, at the smallest size
    precision  that of all variants which state none
    """

    settings: ComparisonSettings
    given: Mapping[str, Any]
    use: tuple[str, ...]
    variants: Sequence[Variant]
    shape: Shape = SHAPES[0]
    precision: str = AUTO

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
        config |= {"precision": self.precision} if config.get("precision", AUTO) == AUTO else {}
        config = with_numbers(
            config, self.lacking(config) if shape is None else {**self.lacking(config), **shape.numbers}
        )
        return settled(config)

    def with_precision(self) -> tuple[Request, str]:
        """The request with the precision that is faster for the base, and one line that says why."""
        base = self.variants[0]
        asked = base.settings.get("precision") or self.given.get("precision") or AUTO
        precision, why = faster_precision(prepare(self.config(base)), str(asked))
        return replace(self, precision=precision), why

    def lacking(self, config: Mapping[str, Any]) -> dict[str, int]:
        """The numbers of size that a configuration's model does not state itself."""
        text = model_text(config)
        wanted = dict(self.shape.numbers)
        if self.task == TASK:
            width = self.shape.width
            wanted["context"] = next((few for most, few in CONTEXTS.items() if width <= most), LONGEST_CONTEXT)
        return {key: value for key, value in wanted.items() if key not in text.stated_numbers}


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


def shapes_of_sizes(request: Request, count: int) -> list[Shape]:
    """The base's shape at each of `count` sizes, the smallest first, such that all variants can have it."""
    prepared = [prepare(request.config(variant)) for variant in request.variants]
    small = [shape_of(one.architecture) for one in prepared]

    def flops(shape: Shape) -> float | None:
        try:
            return flops_per_unit(prepared[0].resized(shape.numbers))
        except InputError:
            return None

    def fits(shape: Shape) -> bool:
        try:
            for one, own in zip(prepared[1:], small[1:], strict=True):
                one.resized(grown(own, small[0], shape).numbers)
        except InputError:
            return False
        return True

    shapes = [small[0]]
    while len(shapes) < count:
        shapes.append(next_shape(shapes[-1], request.settings.size_ratio, flops, fits))
    return shapes


def arms_of_size(request: Request, size: str, shapes: Sequence[Shape]) -> list[Arm]:
    """The arms of the last of the shapes, which the base has at each size so far; matched in parameters where that is
    asked. The base's comes first. Their steps are to come: `with_lengths`."""
    settings, arms = request.settings, list[Arm]()
    for variant in request.variants:
        own = shape_of(prepare(request.config(variant)).architecture)
        shape = grown(own, shapes[0], shapes[-1]) if len(shapes) > 1 else None
        config, adjusted = request.config(variant, shape), ""
        if settings.match == "parameters" and arms:
            config, adjusted = matched_parameters(config, arms[0], variant.levels)
        prepared = prepare(config)
        factor = factor_of(variant.levels.get("lr"))
        if factor is not None:
            config = {**config, "lr": rounded(factor * (settings.rate or default_rate(prepared)))}
        middle = float(config["lr"]) if "lr" in config else settings.rate or middle_rate(prepared, arms)
        arms.append(Arm(variant.name, size, config, costs_of(prepared, TRIAL), middle, adjusted))
    times = step_seconds([prepare(arm.config) for arm in arms])
    same = [identity_of(arm.config) == identity_of(arms[0].config) for arm in arms]
    times = [times[0] if twin else own for twin, own in zip(same, times, strict=True)]
    return [
        replace(arm, costs=replace(arm.costs, step_seconds=seconds, time_ratio=ratio))
        for arm, (seconds, ratio) in zip(arms, times, strict=True)
    ]


def middle_rate(prepared: Prepared, arms: Sequence[Arm]) -> float:
    """The middle of an arm's grid: that of the base with the same optimizer, so that all grids are one; else the
    optimizer's default at the model's width."""
    name = prepared.plan.training.optimizer
    unstated = [arm for arm in arms if "lr" not in arm.config]
    alike = [arm.lr for arm in unstated if prepare(arm.config).plan.training.optimizer == name]
    return alike[0] if alike else default_rate(prepared)


def default_rate(prepared: Prepared) -> float:
    """The optimizer's default at the model's width."""
    width = int(prepared.architecture.numbers.get("width", 128))
    return float(f"{optimizers.get(prepared.plan.training.optimizer).default_lr(width):.3g}")


def with_lengths(request: Request, arms: Sequence[Arm], steps: int) -> list[Arm]:
    """Arms of one size, whose base makes so many steps, matched in what `match` says. An arm that states its own length
    keeps that."""
    stated, match = {variant.name: variant.settings for variant in request.variants}, request.settings.match
    matched: list[Arm] = []
    for arm in arms:
        prepared = prepare(arm.config)
        own = steps_of(stated[arm.variant], prepared)
        count, adjusted = own or steps, arm.adjusted
        if matched and own is None:
            count, change = matched_steps(match, arm.costs, matched[0].costs)
            adjusted = "; ".join(filter(None, [adjusted, change]))
        ratio = arm.costs.ratio and arm.costs.ratio.times(count / (matched[0].costs.steps if matched else count))
        costs = costs_of(prepared, count, arm.costs.step_seconds, ratio or ())
        matched.append(replace(arm, config={**arm.config, "steps": count}, costs=costs, adjusted=adjusted))
    return matched
