"""From what was typed to a plan: variants, one size of model for all, runs that fit the budget, what they can show.

What is not said is chosen, and the plan's notes say so: a small model that the budget can train on some tokens for each
parameter, steps that fill the budget, fewer sizes and then fewer seeds where even short runs do not fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..api.reading import import_packages
from ..cost.words import about
from ..errors import ConfigError, InputError, setting
from ..ownership import refuse_unmarked
from ..settings import with_current_keys
from .arms import Base, arms_of_size, lengths_of_sizes, shapes_of_sizes, steps_of, with_lengths
from .budget import (
    EXTENDED,
    FEWEST_SEEDS,
    FEWEST_STEPS,
    Rows,
    fitting_at_once,
    fitting_steps,
    seconds_with_steps,
    too_short,
    whole_seconds,
)
from .costs import Prepared, costs_of, data_score, forget, model_text, prepare, step_seconds, with_steps
from .plan import TUNING_SEEDS, ComparisonPlan, added, check_addition, read_plan
from .records import Arm, Variant
from .settings import BUDGET, ComparisonSettings, seconds_of_text, unpaired
from .sizes import Shape, shape_of, size_names
from .statistics.power import detectable, needed_pairs
from .variants import read_variants, with_types

FOLDER = Path("comparisons")
SHAPES = ((2, 32, 2), (2, 64, 4), (3, 96, 4), (4, 128, 4), (6, 192, 6), (6, 256, 8), (8, 384, 12), (12, 768, 12))
TOKENS_PER_PARAMETER = 4  # that a chosen size is trained on, at least
ASSUMED, LEAST = (
    0.085,
    0.001,
)  # noise of a loss as a share of it: ASSUMED / sqrt(steps), and at least LEAST. Measured of
# equal formulas (benchmarks/seed_noise.py and its SIZES): 1.6, 0.77 and 0.33 % after 30, 120 and 480 steps
ASSUMED_POINTS = 1.0  # noise of a score of which more is better, in points of a hundred
TRIAL_SECONDS = 0.5  # of each size, where one is chosen
USUAL_BITS = 2.0  # bits per byte of a small model of text


@dataclass
class Counted:
    """How many sizes and seeds there are, as far as they may be reduced."""

    sizes: int
    seeds: int


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
    check_paired(given)
    given = with_types(given)
    variants = read_variants(typed, settings, given, use)
    folder = Path(settings.out) if settings.out else default_folder(variants, given)
    refuse_unmarked(folder)
    kept = read_plan(folder)
    if kept is not None:
        kept = replace(kept, given=with_types(kept.given))
        return replanned(kept, variants, settings, given, use, folder), folder
    planner = Planner(settings, given, use, variants)
    return planner.plan(folder.name), folder


def check_paired(given: Mapping[str, Any]) -> None:
    """Raise ConfigError for keys of `train` that a comparison cannot take, each with what to do."""
    mistakes = [f"{key}: {reason}" for key, reason in unpaired().items() if given.get(key) is not None]
    if mistakes:
        raise ConfigError(mistakes)


def default_folder(variants: Sequence[Variant], given: Mapping[str, Any]) -> Path:
    """comparisons/ and the names of the variants and the data: "pre-norm-post-norm-shakespeare"."""
    data = given.get("data")
    names = [*(variant.name for variant in variants), *([Path(str(data)).stem] if isinstance(data, str) else [])]
    name = re.sub(r"[^a-z0-9.]+", "-", "-".join(names).lower()).strip("-.")
    return FOLDER / (name[:80].rstrip("-") or "comparison")


def replanned(
    kept: ComparisonPlan, variants: Sequence[Variant], settings: ComparisonSettings, given: Mapping[str, Any],
    use: Sequence[str], folder: Path,
) -> ComparisonPlan:  # fmt: skip
    """The plan of a folder, gone on with, or with variants and seeds added. Raises InputError where it is another."""
    seeds = kept.seeds if settings.seeds is None and settings.protocol == kept.settings.protocol else seeds_of(settings)
    about = {"variants": variants, "settings": settings, "given": given, "use": tuple(use), "seeds": [*seeds]}
    wanted = replace(kept, **about)  # type: ignore[arg-type]
    check_addition(kept, wanted, folder)
    known = {variant.name for variant in kept.variants}
    new = [variant for variant in variants if variant.name not in known]
    planner = Planner(settings, given, use, variants)
    arms = planner.arms_like(kept, new) if new else []
    order = {variant.name: place for place, variant in enumerate(variants)}
    arms = sorted([*kept.arms, *arms], key=lambda arm: (kept.sizes.index(arm.size), order[arm.variant]))
    if not new and list(seeds) == list(kept.seeds):
        same = settings.noise == kept.settings.noise and settings.effect == kept.settings.effect
        return replace(kept, settings=settings) if same else planner.judged(replace(kept, settings=settings))
    return planner.judged(added(kept, replace(wanted, arms=arms)))


def seeds_of(settings: ComparisonSettings, count: int | None = None) -> list[int]:
    return [settings.seed + number for number in range(settings.seed_count if count is None else count)]


class Planner:
    """Makes the plan of some variants; `notes` collects what was chosen."""

    def __init__(
        self, settings: ComparisonSettings, given: Mapping[str, Any], use: Sequence[str], variants: Sequence[Variant]
    ) -> None:
        self.settings, self.given, self.use, self.variants = settings, given, tuple(use), variants
        self.notes: list[str] = []

    def plan(self, name: str) -> ComparisonPlan:
        """The plan of a new comparison."""
        counted = Counted(self.settings.size_count, self.settings.seed_count)
        base = Base(self.settings, self.given, self.use, self.chosen_shape(counted))
        shapes = shapes_of_sizes(base, self.variants, counted.sizes)
        rows: Rows = [
            arms_of_size(base, self.variants, size, shapes, number)
            for number, size in enumerate(size_names(counted.sizes))
        ]
        first = rows[0][0]
        at_once = fitting_at_once(
            max(arm.costs.memory_bytes for size in rows for arm, _ in size), first[1].plan.training.device,
            self.settings.at_once,
        )  # fmt: skip
        steps = steps_of({**self.given, **self.variants[0].settings}, first[1])
        steps, rows = self.fitted(base, rows, counted, steps, at_once)
        lengths = lengths_of_sizes(steps, self.settings.size_ratio, [size[0][0] for size in rows])
        arms = [
            arm
            for size, length in zip(rows, lengths, strict=True)
            for arm in with_lengths(base, self.variants, size, length)
        ]
        return self.judged(self.assembled(name, arms, counted, first[1], at_once))

    def assembled(
        self, name: str, arms: Sequence[Arm], counted: Counted, first: Prepared, at_once: int
    ) -> ComparisonPlan:
        score = data_score(first.task, self.settings.score)
        tuning = [TUNING_SEEDS + seed for seed in seeds_of(self.settings, self.settings.lr_seeds)]
        return ComparisonPlan(
            name=name, settings=self.settings, given=dict(self.given), variants=list(self.variants), arms=list(arms),
            score=score, unit=score.replace("_", " "), lower=score not in first.task.higher,
            seeds=seeds_of(self.settings, counted.seeds), tuning_seeds=tuning, at_once=at_once, use=self.use,
        )  # fmt: skip

    def judged(self, plan: ComparisonPlan) -> ComparisonPlan:
        """A plan with its time and what it can detect. Raises InputError where it cannot show the effect that matters,
        by a noise that was measured."""
        prepared = [(arm, prepare(arm.config)) for arm in plan.arms]
        runs = {(arm.variant, arm.size): self.runs(plan, arm) for arm in plan.arms}
        seconds = whole_seconds(prepared, runs, plan.at_once)
        if self.settings.noise is not None:
            noise, source = self.settings.noise, "as given"
        elif not plan.lower:
            noise, source = ASSUMED_POINTS, f"assumed: {ASSUMED_POINTS:g} point"
        else:
            usual = self.usual_score(prepared[0][1], plan.score)
            steps = min(arm.costs.steps for arm in plan.arms)
            share = max(LEAST, ASSUMED / math.sqrt(steps))
            what = f"{100 * share:.2g} % of {usual:.2g} {plan.unit}"
            noise, source = share * usual, f"assumed: {what}, by {steps:,} steps"
        others = max(1, len(plan.variants) - 1)
        smallest = detectable(noise, len(plan.seeds), others)
        effect = self.settings.effect
        if effect is not None and smallest > effect:
            seeds = needed_pairs(noise, effect, others)
            needed = "more than 1,000 seeds" if seeds is None else f"{seeds} seeds"
            what = (
                f"{len(plan.seeds)} seeds find a difference of {smallest:.3g} or more, and the effect that matters is"
            )
            told = f"{what} {effect:g}: it needs about {needed}"
            if self.settings.noise is not None and not self.settings.force:
                remedy = f"{setting('seeds', str(seeds or 1000))}, or go on all the same with {setting('force')}"
                raise InputError(f"{told}; say {remedy}")
            self.notes.append(f"{told} (noise {source})")
        kept = [note for note in plan.notes if note not in self.notes]
        return replace(
            plan, seconds=seconds, noise=noise, noise_source=source, detectable=smallest, notes=[*kept, *self.notes]
        )

    def usual_score(self, prepared: Prepared, score: str) -> float:
        """What a loss comes to, roughly: bits per byte of small models; else half of that of guessing."""
        if score == "bits_per_byte":
            return USUAL_BITS
        return 0.5 * math.log(max(2, int(prepared.architecture.numbers.get("vocab", 2))))

    def runs(self, plan: ComparisonPlan, arm: Arm) -> float:
        """Runs of an arm, with those that an extended grid adds on average."""
        return plan.runs(arm) + (EXTENDED - 1) * (plan.runs(arm) - len(plan.seeds))

    def chosen_shape(self, counted: Counted) -> Shape:
        """The numbers of size for those variants that state none: another variant's, else the largest of `SHAPES` that
        the budget trains on enough tokens."""
        texts = [model_text({"model": variant.model}) for variant in self.variants]
        stated = [text for text in texts if {"depth", "width", "heads"} <= text.numbers.keys() or not text.single]
        if stated:
            first = self.variants[texts.index(stated[0])]
            return shape_of(
                prepare(Base(self.settings, self.given, self.use, Shape(*SHAPES[0])).config(first)).architecture
            )
        chosen = Shape(*SHAPES[0])
        for numbers in SHAPES:
            shape = with_width(Shape(*numbers), self.given.get("width"))
            if not self.affords(shape, counted):
                break
            chosen = shape
        self.notes.append(f"size: {chosen}, chosen by the budget where nothing was said")
        return chosen

    def affords(self, shape: Shape, counted: Counted) -> bool:
        """Whether the budget, roughly, trains models of this size on enough tokens, or for the steps that are said."""
        base = Base(self.settings, self.given, self.use, shape)
        prepared = prepare(base.config(self.variants[0]))
        costs = costs_of(prepared, 1, step_seconds(prepared, most=TRIAL_SECONDS))
        at_once = fitting_at_once(costs.memory_bytes, prepared.plan.training.device, self.settings.at_once)
        enough = max(FEWEST_STEPS, math.ceil(TOKENS_PER_PARAMETER * costs.parameters / costs.tokens))
        steps = steps_of({**self.given, **self.variants[0].settings}, prepared) or enough
        sizes = sum(self.settings.size_ratio**number for number in range(counted.sizes))
        stated = all("lr" in {**variant.settings, **variant.levels} for variant in self.variants)
        tunes = self.settings.tunes and not stated
        tuning = EXTENDED * self.settings.lr_points * self.settings.lr_seeds if tunes else 0
        runs = (counted.seeds + tuning) * len(self.variants) * sizes
        arm = Arm("", "", {}, with_steps(costs, steps), 0.0)
        return whole_seconds([(arm, prepared)], {("", ""): runs}, at_once) <= seconds_of_text(
            self.settings.budget or BUDGET
        )

    def fitted(self, base: Base, rows: Rows, counted: Counted, steps: int | None, at_once: int) -> tuple[int, Rows]:
        """The steps of the base at the smallest size, and the sizes that fit the budget.

        Raises InputError where none fit.
        """
        budget = self.settings.budget or (None if steps else BUDGET)
        if budget is None:
            assert steps is not None
            return steps, rows
        least = steps or FEWEST_STEPS
        for sizes, seeds in self.reductions(counted):
            counted.sizes, counted.seeds = sizes, seeds
            smaller = rows[: counted.sizes]
            runs = self.counted_runs(smaller, counted.seeds)
            fitting = fitting_steps(base, smaller, runs, at_once, seconds_of_text(budget))
            if fitting >= least:
                break
        else:
            needed = seconds_with_steps(base, smaller, runs, at_once, least)
            if not self.settings.force:
                raise too_short(budget, sum(runs.values()), least, needed)
            self.notes.append(f"the budget of {budget} is too short: about {about(needed)} are needed")
            fitting = least
        self.tell_reduced(counted, budget)
        if steps is None:
            self.notes.append(f"steps: {fitting:,} for the base's smallest size, by the budget of {budget}")
        return steps or fitting, smaller

    def reductions(self, counted: Counted) -> list[tuple[int, int]]:
        """(sizes, seeds) from what is wanted to the least that was not asked for otherwise."""
        sizes, seeds = counted.sizes, counted.seeds
        fewest_sizes = 1 if self.settings.sizes is None else sizes
        fewest_seeds = min(seeds, FEWEST_SEEDS) if self.settings.seeds is None else seeds
        rows = [(count, seeds) for count in range(sizes, fewest_sizes - 1, -1)]
        return rows + [(fewest_sizes, count) for count in range(seeds - 1, fewest_seeds - 1, -1)]

    def counted_runs(self, rows: Rows, seeds: int) -> dict[tuple[str, str], float]:
        """Runs of each arm, were there so many seeds."""
        counts = {}
        for arm, _ in (row for size in rows for row in size):
            tuned = self.settings.tunes and "lr" not in arm.config
            tuned = tuned and (self.settings.lr == "tune" or arm.variant == self.variants[0].name)
            tuning = EXTENDED * self.settings.lr_points * self.settings.lr_seeds if tuned else 0.0
            counts[arm.variant, arm.size] = seeds + tuning
        return counts

    def tell_reduced(self, counted: Counted, budget: str) -> None:
        """Say what was reduced."""
        settings = self.settings
        if counted.sizes < settings.size_count:
            self.notes.append(
                f"sizes: {counted.sizes} in place of {settings.size_count}, to fit the budget of {budget}: nothing is"
                " said of how the difference changes with scale"
            )
        if counted.seeds < settings.seed_count:
            self.notes.append(
                f"seeds: {counted.seeds} in place of {settings.seed_count}, to fit the budget of {budget}: an"
                " indication only"
            )

    def arms_like(self, kept: ComparisonPlan, new: Sequence[Variant]) -> list[Arm]:
        """Arms of further variants, as long and as large as those of a plan."""
        variants = [self.variants[0], *new]
        first = [kept.arms_of(size)[0] for size in kept.sizes]
        shapes = [shape_of(prepare(arm.config).architecture) for arm in first]
        base = Base(self.settings, self.given, self.use, shapes[0])
        arms: list[Arm] = []
        for number, (size, arm) in enumerate(zip(kept.sizes, first, strict=True)):
            rows = [(arm, prepare(arm.config)), *arms_of_size(base, variants, size, shapes, number)[1:]]
            arms += with_lengths(base, variants, rows, arm.costs.steps)[1:]
        return arms


def with_width(shape: Shape, width: Any) -> Shape:
    """A shape whose heads go into a width that was typed."""
    if width is None or not str(width).isdecimal():
        return shape
    heads = [count for count in range(1, shape.heads + 1) if int(width) % (2 * count) == 0]
    return Shape(shape.depth, int(width), max(heads, default=1))
