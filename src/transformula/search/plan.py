"""A search's plan: the base at its size, the rungs of its races, how many rounds the budget gives. It is written whole
before anything runs, and the same command finds it again and goes on; a search replays what it has run from the store.

    budget = race of wirings + race of settings (the tuning arm, as much) + confirmation
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..api.configuration import with_types
from ..api.reading import import_packages
from ..comparison.arms import Request, default_rate, steps_of
from ..comparison.budget import FEWEST_STEPS, START, fitting_at_once, run_seconds
from ..comparison.costs import costs_of, data_score, forget, prepare, step_seconds, with_steps
from ..comparison.plan import WrittenPlan, plan_in, rounded
from ..comparison.planning import Planner, check_paired
from ..comparison.records import Arm, Variant
from ..comparison.settings import ComparisonSettings
from ..comparison.variants import read_variants
from ..cost.words import about, seconds_of_text
from ..errors import InputError, setting
from ..ownership import refuse_unmarked
from ..plain import plain
from ..runs.identity import digest
from ..settings import read_back, with_current_keys
from .settings import FACTOR, SEEDS_OF_RUNGS, HuntSettings

FOLDER = Path("hunts")
RATES = 5  # learning rates that are tried for the base, in powers of two
SHORTEST = FEWEST_STEPS  # steps of the first rung
FREE = ("dry_run", "engine", "at_once", "store", "out")  # settings that change no number


@dataclass(frozen=True)
class HuntPlan(WrittenPlan):
    """What a search does.

    given    keys of a run's configuration that were typed
    base     the base: its name as typed, and its whole configuration but for `lr`, `seed` and `out`
    steps    of the base's runs at each rung
    rounds   of proposals
    rates    learning rates that are tried for the base, at the last rung; all race at the best one
    score    that is compared; unit: in words; lower: whether less is better
    seconds  an estimate of the whole search
    notes    what was chosen, in sentences
    """

    settings: HuntSettings
    given: Mapping[str, Any]
    base: Arm
    steps: Sequence[int]
    rounds: int
    rates: Sequence[float]
    score: str
    unit: str
    lower: bool
    at_once: int
    seconds: float
    notes: Sequence[str] = ()
    use: Sequence[str] = field(default_factory=tuple)

    @property
    def hash(self) -> str:
        """16 digits of all that decides numbers."""
        settings = {key: value for key, value in self.settings.plain().items() if key not in FREE}
        rest = [dict(self.given), dict(self.base.config), self.base.lr, [*self.steps], self.rounds, [*self.rates]]
        return str(digest([settings, rest, self.score, [*self.use]]))

    def seeds(self, rung: int) -> list[int]:
        """The paired seeds of a rung; a later one has those of the ones before."""
        first = self.settings.seed
        return list(range(first, first + SEEDS_OF_RUNGS[rung]))

    def __repr__(self) -> str:
        costs, settings = self.base.costs, self.settings
        runs = runs_of_round(settings.children + settings.twins)
        lines = [
            f"base: {self.settings.base}, {costs.parameters:,} parameters; score: {self.unit}",
            f"rungs: {', '.join(f'{steps:,}' for steps in self.steps)} steps, with"
            f" {', '.join(map(str, SEEDS_OF_RUNGS[: len(self.steps)]))} seeds; one of {FACTOR} goes on",
            f"rounds: {self.rounds}, each of {settings.children} wirings and {settings.twins} twins of the base"
            f" ({sum(runs)} runs)",
            f"time: about {about(self.seconds)}, {self.at_once} runs at once",
            *self.notes,
        ]
        return "\n".join(lines)


def runs_of_round(candidates: int) -> list[int]:
    """Runs of a round at each rung."""
    counts = [candidates]
    while len(counts) < len(SEEDS_OF_RUNGS):
        counts.append(max(1, round(counts[-1] / FACTOR)))
    return [count * seeds for count, seeds in zip(counts, SEEDS_OF_RUNGS, strict=True)]


def make_hunt_plan(settings: HuntSettings, given: Mapping[str, Any], use: Sequence[str]) -> tuple[HuntPlan, Path]:
    """The plan of a search, and its folder, where nothing is written yet: that which the folder holds, if it is of the
    same search. Raises ConfigError, InputError, FormulaError, DataError, CheckpointError."""
    import_packages(use)
    forget()
    given = with_current_keys(given)
    shared = ComparisonSettings.read({"budget": settings.budget, "score": settings.score, "sizes": 1})
    check_paired(given, shared)
    given = with_types(given)
    folder = Path(settings.out) if settings.out else FOLDER / Path(settings.base).stem.replace(" ", "-")[:60]
    refuse_unmarked(folder)
    plan = planned(settings, shared, given, use, read_plan(folder))
    return plan, folder


def planned(
    settings: HuntSettings, shared: ComparisonSettings, given: Mapping[str, Any], use: Sequence[str],
    kept: HuntPlan | None,
) -> HuntPlan:  # fmt: skip
    """A new plan; or that which is kept, where the same was asked for."""
    if kept is not None:
        same = {key: value for key, value in settings.plain().items() if key not in FREE}
        former = {key: value for key, value in kept.settings.plain().items() if key not in FREE}
        changed = [key for key in same if plain(same[key]) != plain(former.get(key))]
        changed += [key for key in {*given, *kept.given} if plain(given.get(key)) != plain(kept.given.get(key))]
        if changed:
            remedy = f"name another folder, {setting('out', 'FOLDER')}: runs of both are shared all the same"
            raise InputError(
                f"{setting('out', str(settings.out))}: holds another search; changed: {', '.join(changed)}; {remedy}"
            )
        return replace(kept, settings=settings)
    base, why = base_arm(settings, shared, given, use)
    prepared = prepare(base.config)
    score = data_score(prepared.task, settings.score)
    at_once = fitting_at_once(base.costs.memory_bytes, prepared.plan.training.device, settings.at_once)
    stated = steps_of(given, prepared)
    rounds, longest, notes = lengths(settings, base, at_once, stated)
    steps = [max(1, longest // FACTOR ** (len(SEEDS_OF_RUNGS) - 1 - n)) for n in range(len(SEEDS_OF_RUNGS))]
    low = -(RATES - 1) // 2
    rates = [base.lr] if "lr" in given else [rounded(base.lr * 2.0**power) for power in range(low, low + RATES)]
    arms = 2 if settings.tuning else 1
    seconds = arms * rounds * round_seconds(settings, base, steps[-1]) / at_once
    seconds += settings.confirm * seconds_of_text(settings.budget)
    return HuntPlan(
        settings=settings, given=dict(given), base=base, steps=steps, rounds=rounds, rates=rates, score=score,
        unit=score.replace("_", " "), lower=score not in prepared.task.higher, at_once=at_once,
        seconds=seconds, notes=[*why, *notes], use=tuple(use),
    )  # fmt: skip


def base_arm(
    settings: HuntSettings, shared: ComparisonSettings, given: Mapping[str, Any], use: Sequence[str]
) -> tuple[Arm, list[str]]:
    """The base at a size that the budget trains, with what it costs; and what was chosen, in sentences."""
    two = read_variants([settings.base, settings.base], shared, given, use)  # a comparison has two
    base = Variant("base", two[0].typed, two[0].model, two[0].settings, {}, two[0].notes)
    planner = Planner(Request(shared, given, tuple(use), [base]))
    request, why = replace(planner.request, shape=planner.chosen_shape()).with_precision()
    config = request.config(base)
    prepared = prepare(config)
    seconds, _ = step_seconds([prepared])[0]
    lr = float(config.pop("lr")) if "lr" in config else default_rate(prepared)
    costs = replace(costs_of(prepared, 1, seconds), step_seconds=seconds)
    return Arm("base", "only", config, costs, lr), [*planner.notes, why]


def round_seconds(settings: HuntSettings, base: Arm, steps: int) -> float:
    """Seconds of one processor that a round takes whose longest runs have so many steps."""
    runs = runs_of_round(settings.children + settings.twins)
    longest: float = run_seconds(replace(base, costs=with_steps(base.costs, steps))) - START
    costs = [count * float(FACTOR) ** (n + 1 - len(runs)) for n, count in enumerate(runs)]  # in runs of the last rung
    return START * sum(runs) + longest * sum(costs)


def lengths(settings: HuntSettings, base: Arm, at_once: int, stated: int | None) -> tuple[int, int, list[str]]:
    """Rounds and the steps of the last rung by the budget. More time gives more rounds and longer ones: both grow with
    its square root. Raises InputError where not one round of the shortest runs fits."""
    share = (1 - settings.confirm) / (2 if settings.tuning else 1)
    whole = seconds_of_text(settings.budget) * share * at_once
    shortest = stated or SHORTEST * FACTOR ** (len(SEEDS_OF_RUNGS) - 1)
    seconds = partial(round_seconds, settings, base)
    most = int(whole // seconds(shortest))
    if most < 1 and settings.rounds is None:
        needed = about(seconds(shortest) / share / at_once)
        raise InputError(
            f"{setting('budget', settings.budget)}: one round of {settings.children} wirings, whose longest runs have"
            f" {shortest:,} steps, takes {needed} with all else; give more time, fewer children, or lower width, depth"
            " or batch"
        )
    rounds = settings.rounds or max(1, min(most, round(math.sqrt(most) * 1.5)))
    if stated:
        return settings.rounds or most, stated, []
    per_step = seconds(2 * shortest) - seconds(shortest)
    longest = shortest + int(max(0.0, whole / rounds - seconds(shortest)) / per_step * shortest)
    return rounds, longest, [f"steps: {longest:,} in the longest runs, by the budget of {settings.budget}"]


def read_plan(folder: Path) -> HuntPlan | None:
    """The plan of a folder; None where there is none. Raises CheckpointError where it is damaged."""
    return plan_in(folder, plan_of_data)


def plan_of_data(data: Mapping[str, Any]) -> HuntPlan:
    """A plan as `HuntPlan.data` gives it."""
    stated = {**data, "settings": HuntSettings.read(data["settings"])}
    plan: HuntPlan = read_back(HuntPlan, {key: value for key, value in stated.items() if key != "hash"}, "plan")
    return plan
