"""From what was typed to a plan: variants, one size of model for all, runs that fit the budget, what they can show.

What is not said is chosen, and the plan's notes say so: a small model that the budget can train on some tokens for each
parameter, steps that fill the budget, fewer sizes and then fewer seeds where even short runs do not fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from ..analysis.sizes import SHAPES, Shape, shape_of, size_names
from ..api.configuration import with_types
from ..api.reading import TASK, import_packages
from ..api.unread import refuse
from ..cost.words import about, seconds_of_text
from ..errors import ConfigError, InputError, setting
from ..ownership import refuse_unmarked
from ..settings import with_current_keys
from ..tasks.base import tasks
from ..training.machine import BF16
from .arms import Request, arms_of_size, shapes_of_sizes, steps_of, with_lengths
from .audit import with_audit
from .budget import (
    FEWEST_SEEDS,
    FEWEST_STEPS,
    fitting_at_once,
    fitting_steps,
    lengths_of_sizes,
    seconds_with_steps,
    too_short,
    whole_seconds,
)
from .costs import costs_of, data_score, forget, model_text, prepare, step_seconds, with_steps
from .foreseen import foreseen
from .plan import ComparisonPlan, check_addition, read_plan
from .records import Arm, Variant
from .settings import BUDGET, ComparisonSettings, unpaired
from .statistics.power import pooled
from .store import Store
from .variants import read_variants

FOLDER = Path("comparisons")
TOKENS_PER_PARAMETER = 4  # that a chosen size is trained on, at least
ASSUMED_NOISE, LEAST_NOISE = 0.2, 0.001
"""Noise of a loss as a share of it: ASSUMED_NOISE / sqrt(steps), and at least LEAST_NOISE. Measured: see
benchmarks/noise_before.py."""
ASSUMED_POINTS = 1.0  # noise of a score of which more is better, in points of a hundred
TRIAL_SECONDS = 0.5  # of each size, where one is chosen
USUAL_BITS = 3.0  # bits per byte of a small model of text after some hundred steps


def make_plan(
    typed: Sequence[Any], settings: ComparisonSettings, given: Mapping[str, Any], use: Sequence[str] = ()
) -> tuple[ComparisonPlan, Path]:
    """The plan of a comparison, and its folder, where nothing is written yet.

    typed  the variants: see `variants.py`
    given  keys of a run's configuration that go for all of them

    Where the folder holds the same plan already, that one is returned as it was written; where variants or seeds are
    added, its arms stay as they are. Raises ConfigError, InputError, FormulaError, DataError, CheckpointError.
    """
    import_packages(use)
    forget()
    given = with_current_keys(given)
    check_paired(given, settings)
    given = with_types(given)
    variants = read_variants(typed, settings, given, use)
    folder = Path(settings.out) if settings.out else default_folder(variants, given)
    refuse_unmarked(folder)
    kept = read_plan(folder)
    refuse(settings.unread(variants, kept.settings if kept else ComparisonSettings()))
    request = Request(settings, given, tuple(use), variants)
    if kept is not None:
        return replanned(replace(kept, given=with_types(kept.given)), request, folder), folder
    return Planner(request).plan(folder.name), folder


def check_paired(given: Mapping[str, Any], settings: ComparisonSettings) -> None:
    """Raise ConfigError for keys of `train` that a comparison cannot take, and for lengths of window of a task without
    such, each with what to do."""
    mistakes = [f"{key}: {reason}" for key, reason in unpaired().items() if given.get(key) is not None]
    task = str(given.get("task", TASK))
    if settings.contexts and "contexts" not in tasks.need(task).evaluation.model_fields:
        mistakes.append(f"contexts: is for language models, and {task} has no windows of a text; leave it out")
    if mistakes:
        raise ConfigError(mistakes)


def default_folder(variants: Sequence[Variant], given: Mapping[str, Any]) -> Path:
    """comparisons/ and the names of the variants and the data: "pre-norm-post-norm-shakespeare"."""
    data = given.get("data")
    names = [*(variant.name for variant in variants), *([Path(str(data)).stem] if isinstance(data, str) else [])]
    return FOLDER / folder_name(names)


def folder_name(names: Sequence[str]) -> str:
    """What a folder is called by the names of what is in it."""
    name = re.sub(r"[^a-z0-9.]+", "-", "-".join(names).lower()).strip("-.")
    return name[:80].rstrip("-") or "comparison"


def replanned(kept: ComparisonPlan, request: Request, folder: Path) -> ComparisonPlan:
    """The plan of a folder, gone on with, or with variants and seeds added. Raises InputError where it is another."""
    settings, former = request.settings, kept.settings
    looks = settings.until == "decided" != former.until
    same_seeds = settings.seeds is None and settings.protocol == former.protocol and not looks
    wanted = replace(
        kept, variants=request.variants, settings=settings, given=request.given, use=request.use,
        seeds=[*kept.seeds] if same_seeds else settings.paired_seeds,
    )  # fmt: skip
    check_addition(kept, wanted, folder)
    known = {variant.name for variant in kept.variants}
    new = [variant for variant in request.variants if variant.name not in known]
    if not new and wanted.seeds == [*kept.seeds]:
        same = (settings.noise, settings.effect) == (former.noise, former.effect)
        return replace(kept, settings=settings) if same else with_estimates(replace(kept, settings=settings))
    order = [(size, variant.name) for size in kept.sizes for variant in request.variants]
    arms = sorted([*kept.arms, *arms_like(kept, request, new)], key=lambda arm: order.index((arm.size, arm.variant)))
    return with_estimates(with_audit(replace(wanted, arms=arms)))


def arms_like(kept: ComparisonPlan, request: Request, new: Sequence[Variant]) -> list[Arm]:
    """Arms of further variants, as long and as large as those of a plan."""
    shapes = [shape_of(prepare(arm.config).architecture) for arm in kept.base_arms]
    precision = str(kept.base_arms[0].config["precision"])
    request = replace(request, variants=[request.variants[0], *new], shape=shapes[0], precision=precision)
    arms: list[Arm] = []
    for number, base in enumerate(kept.base_arms if new else [], 1):
        measured, *others = arms_of_size(request, base.size, shapes[:number])
        slower = (base.costs.step_seconds or 0.0) / (measured.costs.step_seconds or 1.0)  # when the plan was made
        seconds = [slower * (arm.costs.step_seconds or 0.0) for arm in others]
        others = [replace(a, costs=replace(a.costs, step_seconds=s)) for a, s in zip(others, seconds, strict=True)]
        arms += with_lengths(request, [base, *others], base.costs.steps)[1:]
    return arms


class Planner:
    """Makes the plan of a new comparison; `notes` collects what was chosen."""

    def __init__(self, request: Request) -> None:
        self.request, self.settings, self.base = request, request.settings, request.variants[0]
        self.stated_steps = partial(steps_of, {**request.given, **self.base.settings})
        self.notes: list[str] = []

    def plan(self, name: str) -> ComparisonPlan:
        request, why = replace(self.request, shape=self.chosen_shape()).with_precision()
        self.notes += [f"{why}; it is that of all variants which state none"] if request.precision == BF16 else []
        sizes = size_names(self.settings.size_count)
        shapes = shapes_of_sizes(request, len(sizes))
        arms = [arm for number, size in enumerate(sizes, 1) for arm in arms_of_size(request, size, shapes[:number])]
        draft = with_audit(self.draft(arms, name))
        plan, steps = self.fit_budget(draft, self.stated_steps(prepare(arms[0].config)))
        lengths = zip(plan.sizes, lengths_of_sizes(steps, plan), strict=True)
        arms = [arm for size, length in lengths for arm in with_lengths(request, plan.arms_of(size), length)]
        return with_estimates(replace(plan, arms=arms, notes=self.notes))

    def draft(self, arms: Sequence[Arm], name: str = "") -> ComparisonPlan:
        """A plan of arms whose lengths are to come, with all the seeds that are wanted."""
        settings, first = self.settings, prepare(arms[0].config)
        score = data_score(first.task, settings.score)
        memory = max(arm.costs.memory_bytes for arm in arms)
        return ComparisonPlan(
            name=name, settings=settings, given=dict(self.request.given), variants=list(self.request.variants),
            arms=list(arms), score=score, unit=score.replace("_", " "), lower=score not in first.task.higher,
            seeds=settings.paired_seeds, tuning_seeds=settings.tuning_seeds, use=self.request.use,
            at_once=fitting_at_once(memory, first.plan.training.device, settings.at_once),
        )  # fmt: skip

    def chosen_shape(self) -> Shape:
        """The numbers of size for those variants that state none: another variant's, else the largest of `SHAPES` that
        the budget trains on enough tokens."""
        for variant in self.request.variants:
            text = model_text({"model": variant.model})
            if {"depth", "width", "heads"} <= text.numbers.keys() or not text.single:
                return shape_of(prepare(self.request.config(variant)).architecture)
        chosen = SHAPES[0]
        for shape in SHAPES:
            shape = with_width(shape, self.request.given.get("width"))
            if not self.affords(shape):
                break
            chosen = shape
        self.notes.append(f"size: {chosen}, chosen by the budget where nothing was said")
        return chosen

    def affords(self, shape: Shape) -> bool:
        """Whether the budget, roughly, trains models of this size on enough tokens, or for the steps that are said."""
        config = replace(self.request, shape=shape).with_precision()[0].config(self.base)
        prepared = prepare(config)
        costs = costs_of(prepared, 1, step_seconds([prepared], most=TRIAL_SECONDS)[0][0])
        enough = max(FEWEST_STEPS, math.ceil(TOKENS_PER_PARAMETER * costs.parameters / costs.tokens))
        costs = with_steps(costs, self.stated_steps(prepared) or enough)
        tuned = {key: value for key, value in config.items() if key != "lr"}
        arms = [
            Arm(variant.name, "", {**tuned, "lr": 0.0} if variant.states_rate else tuned, costs, 0.0)
            for variant in self.request.variants
        ]
        sizes = sum(self.settings.size_ratio**number for number in range(self.settings.size_count))
        return sizes * whole_seconds(self.draft(arms)) <= seconds_of_text(self.settings.budget or BUDGET)

    def fit_budget(self, plan: ComparisonPlan, stated: int | None) -> tuple[ComparisonPlan, int]:
        """The plan with the sizes and seeds that fit the budget, and the steps of the base at the smallest size.

        stated  those steps, where they are said

        Raises InputError where nothing fits.
        """
        budget = self.settings.budget or (None if stated else BUDGET)
        if budget is None:
            assert stated is not None
            return plan, stated
        least = stated or FEWEST_STEPS
        for smaller in self.reductions(plan):
            steps = fitting_steps(smaller, seconds_of_text(budget))
            if steps >= least:
                break
        else:
            if not self.settings.force:
                raise too_short(smaller, budget, least)
            needed, steps = about(seconds_with_steps(smaller, least)), least
            self.notes.append(f"the budget of {budget} is too short: about {needed} are needed")
        for what, before, now, so in (
            ("sizes", plan.sizes, smaller.sizes, "nothing is said of how the difference changes with scale"),
            ("seeds", plan.seeds, smaller.seeds, "an indication only"),
        ):
            if len(now) < len(before):
                self.notes.append(f"{what}: {len(now)} in place of {len(before)}, to fit the budget of {budget}: {so}")
        if stated is None:
            self.notes.append(f"steps: {steps:,} for the base's smallest size, by the budget of {budget}")
        return smaller, stated or steps

    def reductions(self, plan: ComparisonPlan) -> Iterator[ComparisonPlan]:
        """The plan, then with fewer sizes and fewer seeds, as far as these were not asked for."""
        sizes, seeds = plan.sizes, plan.seeds
        for count in range(len(sizes), 0 if self.settings.sizes is None else len(sizes) - 1, -1):
            plan = replace(plan, arms=[arm for arm in plan.arms if arm.size in sizes[:count]])
            yield plan
        for count in range(len(seeds) - 1, FEWEST_SEEDS - 1, -1) if self.settings.seeds is None else ():
            yield replace(plan, seeds=seeds[:count])


def with_estimates(plan: ComparisonPlan) -> ComparisonPlan:
    """A plan with its time and what it can detect. Raises InputError where it cannot show the effect that matters, by a
    noise that was measured."""
    settings, (noise, source) = plan.settings, expected_noise(plan)
    why, seeds = plan.shortfall(noise)
    if why and settings.noise is not None and not settings.force:
        remedy = f"{setting('seeds', str(seeds or 1000))}, or go on all the same with {setting('force')}"
        raise InputError(f"{why}; say {remedy}")
    notes = [*dict.fromkeys([*plan.notes, *([f"{why} (noise {source})"] if why else [])])]
    return replace(
        plan, seconds=whole_seconds(plan), noise=noise, noise_source=source, detectable=plan.smallest(noise),
        notes=notes, foreseen=foreseen(plan),
    )  # fmt: skip


def expected_noise(plan: ComparisonPlan) -> tuple[float, str]:
    """The standard deviation of paired differences at the largest size, before any run of the plan, and where it is
    from: as given; as in earlier runs of the store on the same data; else assumed."""
    if plan.settings.noise is not None:
        return plan.settings.noise, "as given"
    arm = plan.base_arms[-1]
    earlier = [
        math.sqrt(length) * noise.difference
        for (length, a), (other, b) in combinations(Store(plan.settings.store).alike(arm.config, plan.score), 2)
        if length == other and (noise := pooled([[a[seed] - b[seed] for seed in a.keys() & b.keys()]], ""))
    ]
    if earlier:
        return median(earlier), "as in earlier runs on this data"
    if not plan.lower:
        return ASSUMED_POINTS, f"assumed: {ASSUMED_POINTS:g} point"
    share = max(LEAST_NOISE, ASSUMED_NOISE / math.sqrt(arm.costs.steps))
    usual = USUAL_BITS
    if plan.score != "bits_per_byte":  # half of that of guessing
        usual = 0.5 * math.log(max(2, int(prepare(arm.config).architecture.numbers.get("vocab", 2))))
    return share * usual, f"assumed: {100 * share:.2g} % of {usual:.2g} {plan.unit}, by {arm.costs.steps:,} steps"


def with_width(shape: Shape, width: Any) -> Shape:
    """A shape whose heads go into a width that was typed."""
    if width is None or not str(width).isdecimal():
        return shape
    heads = [count for count in range(1, shape.heads + 1) if int(width) % (2 * count) == 0]
    return Shape(shape.depth, int(width), max(heads, default=1))
