"""A comparison's plan: its arms with what they cost, its seeds and rates, the jobs of each stage. It is written whole,
with its hash, before anything runs; the same command finds it again and goes on. `--dry-run` prints it as a table.

plan.json
  hash      of all that decides numbers: settings, variants, arms, seeds; not of what was measured (seconds, memory)
  identity  of what an addition leaves as it is: variants and seeds may be added to a plan, and nothing else changed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from ..atomic_io import write_whole
from ..cost.ratio import INTERVAL
from ..cost.words import AMOUNTS, about, bytes_in_words, in_units, of_a_step, table
from ..errors import CheckpointError, InputError, setting
from ..ownership import claim
from ..plain import plain
from ..structured import Malformed, load_json
from .jobs import jobs_of
from .matching import consequences
from .records import Arm, Audit, Job, RunCosts, Stage, Variant, WithArms
from .settings import ComparisonSettings
from .statistics.power import Noise, detectable, needed_pairs

P = TypeVar("P", bound="WrittenPlan")
FILE = "plan.json"
FREE = (
    *("base", "dry_run", "force", "engine", "at_once", "store", "out", "noise", "effect", "protocol", "samples"),
    *("inspect_rows", "contexts", "repeat_on"),
)
"""Settings that change no number of a run, or are seen in others, as `protocol` in seeds and sizes."""
ADDED = ("seeds", "until", "vary", "fraction", "sizes")  # settings that an addition may change, as far as arms agree
HEAD = (
    "", "size", "parameters", "embeddings", "FLOPs/token", "steps", "tokens", "FLOPs", "memory", "step", "runs",
    "a run",
)  # fmt: skip
MATCHED = {"tokens": "tokens seen", "parameters": "parameters", "flops": "FLOPs", "time": "seconds of training"}


class WrittenPlan:
    """What is a dataclass with `settings` and a `hash`, and is written before anything runs."""

    settings: Any
    hash: Any

    @property
    def data(self) -> dict[str, Any]:
        """As plain data: what plan.json holds."""
        return plain({"hash": self.hash, **asdict(self), "settings": self.settings.plain()})  # type: ignore

    def write(self, folder: Path) -> None:
        """Write plan.json, whole."""
        claim(folder, (FILE,))
        write_whole(folder / FILE, (json.dumps(self.data, indent=1, ensure_ascii=False) + "\n").encode())


@dataclass(frozen=True)
class ComparisonPlan(WithArms, WrittenPlan):
    """What a comparison does.

    given       keys of a run's configuration that were typed for all variants
    detectable  the smallest difference that the runs find with a power of 80 %, None where it cannot be said; noise:
                the standard deviation of paired differences that this assumes, and noise_source where it is from
    measured    the noise as runs that tuned the rates have shown it, before those that confirm; None before them
    at_once     runs at the same time that the estimate of time counts with; seconds: that estimate
    there       runs of it that the store has, where that was looked for; `seconds` is then of the others
    notes       what was chosen or reduced, in sentences
    audit       in what each variant differs from the base
    foreseen    that the base will probably learn no more than a simple model of the data; "" where it will
    """

    name: str
    settings: ComparisonSettings
    given: Mapping[str, Any]
    variants: Sequence[Variant]
    arms: Sequence[Arm]
    score: str
    unit: str
    lower: bool
    seeds: Sequence[int]
    tuning_seeds: Sequence[int]
    detectable: float | None = None
    noise: float | None = None
    noise_source: str = ""
    measured: Noise | None = None
    at_once: int = 1
    seconds: float | None = None
    notes: Sequence[str] = ()
    use: Sequence[str] = field(default_factory=tuple)
    audit: Sequence[Audit] = ()
    there: int = 0
    foreseen: str = ""

    @property
    def same(self) -> list[str]:
        """Variants whose runs are the base's, so that none is made of them, and no difference can be claimed."""
        return [audit.variant for audit in self.audit if audit.same]

    @property
    def base(self) -> str:
        """The variant that the others are compared with."""
        return self.variants[0].name

    @property
    def base_arms(self) -> list[Arm]:
        """The base's arm at each size."""
        return [arm for arm in self.arms if arm.variant == self.base]

    @property
    def tests(self) -> int:
        """Variants that are tested at a size: one that is the same as the base is not."""
        return max(1, len({variant.name for variant in self.variants} - {self.base, *self.same}))

    def smallest(self, noise: float, common: float = 0.0) -> float:
        """The smallest difference that its runs find with a power of 80 %, at this noise."""
        return detectable(noise, len(self.seeds), self.tests, common=common)

    def shortfall(self, noise: float, common: float = 0.0) -> tuple[str, int | None]:
        """Why its runs may miss the effect that matters, with the seeds that find it; "" where they do not."""
        effect, smallest = self.settings.effect, self.smallest(noise, common)
        if effect is None or smallest <= effect:
            return "", None
        seeds = needed_pairs(noise, effect, self.tests, common)
        why = f"{len(self.seeds)} seeds find a difference of {smallest:.3g} or more, and the effect that matters is"
        return f"{why} {effect:g}: it needs {'about ' + str(seeds) if seeds else 'more than 1,000'} seeds", seeds

    @property
    def revision(self) -> str:
        """What the runs that tuned rates have changed of what the plan can show, in a sentence; "" before them."""
        if self.measured is None or self.noise is None:
            return ""
        now, then = self.measured.difference, self.noise
        vary = f"paired differences vary by {now:.2g} ({self.measured.source}) in place of {then:.2g}"
        found = f"{self.smallest(now, self.measured.common):.2g} {self.unit} in place of {self.smallest(then):.2g}"
        return f"noise measured before the runs that confirm: {vary} ({self.noise_source}); detectable now {found}"

    def tuned(self, arm: Arm) -> bool:
        """Whether the arm's rate is looked for: it states none, none is given for all, and a shared one is the
        base's."""
        if "lr" in arm.config or not self.settings.tunes:
            return False
        return self.settings.lr == "tune" or arm.variant == self.base

    def rates(self, arm: Arm) -> list[float]:
        """The grid of an arm: powers of two around its middle; the one rate of an arm that is not tuned."""
        if not self.tuned(arm):
            return [arm.lr]
        low = -(self.settings.lr_points - 1) // 2
        return [rounded(arm.lr * 2.0**power) for power in range(low, low + self.settings.lr_points)]

    def jobs(
        self, stage: Stage, arm: Arm, rates: Sequence[float] | None = None, seeds: Sequence[int] | None = None
    ) -> list[Job]:
        """The runs of an arm in one stage: to tune, each rate of its grid with each tuning seed; to confirm, one rate
        with each seed of the comparison."""
        if rates is None:
            rates = self.rates(arm)
        if seeds is None:
            seeds = self.tuning_seeds if stage == "tune" else self.seeds
        return jobs_of(arm, stage, rates, seeds, self.score)

    def tuning_runs(self, arm: Arm) -> int:
        """Runs that tune an arm's rate, without what a best rate at the edge of the grid adds."""
        return len(self.rates(arm)) * len(self.tuning_seeds) if self.tuned(arm) else 0

    def runs(self, arm: Arm) -> int:
        """Runs of an arm in all stages."""
        return 0 if arm.variant in self.same else self.tuning_runs(arm) + len(self.seeds)

    @property
    def hash(self) -> str:
        """16 digits of all that decides numbers."""
        arms = [[arm.variant, arm.size, dict(arm.config), arm.lr] for arm in self.arms]
        variants = [*map(identity, self.variants)]
        return digest({**self.identity, "variants": variants, "seeds": [*self.seeds], "arms": arms})

    @property
    def identity(self) -> dict[str, Any]:
        """What an addition of variants or seeds leaves as it is."""
        settings = self.settings.plain()
        kept = {key: value for key, value in settings.items() if key not in (*FREE, *ADDED)}
        return {**kept, "base": self.base, "score": self.score, "given": dict(self.given), "use": [*self.use]}

    def __repr__(self) -> str:
        return plan_text(self)


def identity(variant: Variant) -> dict[str, Any]:
    """All of a variant that decides numbers."""
    return plain({key: value for key, value in asdict(variant).items() if key != "notes"})  # type: ignore[no-any-return]


def rounded(rate: float) -> float:
    """With six digits, so that equal rates are one."""
    return float(f"{rate:.6g}")


def digest(value: Any) -> str:
    """16 hexadecimal digits that say plain data."""
    return hashlib.sha256(json.dumps(plain(value), sort_keys=True).encode()).hexdigest()[:16]


def read_plan(folder: Path) -> ComparisonPlan | None:
    """The plan of a folder; None where there is none. Raises CheckpointError where it is damaged."""
    return plan_in(folder, plan_of_data)


def plan_in(folder: Path, plan_of: Callable[[Any], P]) -> P | None:
    """The same for a plan of any kind, which has a `hash`."""
    try:
        read = load_json(folder / FILE)
        plan = plan_of(read)
    except FileNotFoundError:
        return None
    except (OSError, Malformed, KeyError, TypeError, AttributeError, InputError) as error:
        remedy = f"put it back as it was, or name another folder: {setting('out', 'FOLDER')}"
        raise CheckpointError(f"{folder / FILE}: damaged ({error}); {remedy}") from None
    if read["hash"] != plan.hash:
        remedy = f"a plan is not edited: name another folder with {setting('out', 'FOLDER')}"
        raise CheckpointError(f"{folder / FILE}: its content is not that of its hash; {remedy}")
    return plan


def plan_of_data(data: Mapping[str, Any]) -> ComparisonPlan:
    """A plan as `ComparisonPlan.data` gives it."""
    records: dict[str, Any] = {
        "settings": ComparisonSettings.read(data["settings"]),
        "arms": [Arm(**{**arm, "costs": run_costs_of(arm["costs"])}) for arm in data["arms"]],
        "variants": [Variant(**variant) for variant in data["variants"]],
        "audit": [Audit(**audit) for audit in data.get("audit", ())],
    }
    if data.get("measured"):
        records["measured"] = Noise(**data["measured"])
    stated = {key: data[key] for key in data.keys() & {field.name for field in fields(ComparisonPlan)}}
    return ComparisonPlan(**{**stated, **records})


def run_costs_of(data: Mapping[str, Any]) -> RunCosts:
    return RunCosts(**{**data, "time_ratio": tuple(data.get("time_ratio", ()))})


def check_addition(kept: ComparisonPlan, plan: ComparisonPlan, folder: Path) -> None:
    """Raise InputError where a folder's plan is another one, rather than one to which variants or seeds are added."""
    before, now = kept.identity, plan.identity
    changed = [key for key in now if plain(before.get(key)) != plain(now[key])]
    known = {variant.name: identity(variant) for variant in plan.variants}
    missing = [variant.name for variant in kept.variants if known.get(variant.name) != identity(variant)]
    if missing:
        changed.append(f"variants ({', '.join(missing)})")
    if len(plan.seeds) < len(kept.seeds):
        changed.append("seeds (fewer)")
    if plan.settings.sizes not in (None, len(kept.sizes)):
        changed.append(f"sizes ({plan.settings.sizes} in place of {len(kept.sizes)})")
    if changed:
        remedy = f"name another folder, {setting('out', 'FOLDER')}: runs of both are shared all the same"
        what = "holds another plan, to which variants and seeds may be added and nothing else changed"
        raise InputError(f"{folder}: {what}; changed here: {', '.join(changed)}; {remedy}")


def plan_text(plan: ComparisonPlan) -> str:
    """Costs of each arm, then runs, seeds, time, what can be detected, and what was chosen."""
    rows = [HEAD, *(arm_cells(plan, arm) for arm in plan.arms)]
    lines = table(rows, left=2)
    head = f"{plan.name} (plan {plan.hash})"
    return "\n".join([head, *lines, "", *audit_lines(plan), *sentences_of(plan), *plan.notes])


def audit_lines(plan: ComparisonPlan) -> Iterator[str]:
    """In what each variant differs from the base, what it took of others, and what follows from that at each size."""
    for variant, audit in zip(plan.variants[1:], plan.audit, strict=True):
        yield f"{variant.name} {audit.text(plan.base)}"
    for variant in plan.variants:
        yield from (f"{variant.name} {note}" for note in variant.notes)
    for base in plan.base_arms:
        for arm in plan.arms_of(base.size):
            if follows := consequences(arm, base):
                yield f"{arm.variant}{'' if arm.size == 'only' else f', {arm.size}'}: {'; '.join(follows)}"


def arm_cells(plan: ComparisonPlan, arm: Arm) -> Sequence[str]:
    costs = arm.costs
    seconds = costs.step_seconds
    return (
        arm.variant + (" (base)" if arm.variant == plan.base else ""),
        "" if arm.size == "only" else arm.size,
        f"{costs.parameters:,}",
        f"{costs.parameters - costs.parameters_without_embeddings:,}",
        in_units(costs.flops_per_token, AMOUNTS),
        f"{costs.steps:,}",
        in_units(costs.tokens, AMOUNTS),
        in_units(costs.flops, {"P": 1e15, **AMOUNTS}),
        bytes_in_words(costs.memory_bytes),
        "" if seconds is None else of_a_step(seconds),
        str(plan.runs(arm)),
        "" if costs.seconds is None else about(costs.seconds),
    )


def sentences_of(plan: ComparisonPlan) -> Iterator[str]:
    """What is equal, the rates, the seeds, the time and the detectable effect, a sentence each."""
    settings = plan.settings
    yield from filter(None, [plan.foreseen])
    yield f"equal: {MATCHED[settings.match]}; everything else is as the table says"
    tuned = [arm for arm in plan.arms if plan.tuned(arm)]
    grids = {tuple(plan.rates(arm)) for arm in tuned}
    rates = "; ".join(", ".join(f"{rate:.3g}" for rate in grid) for grid in sorted(grids))
    if any("lr" in variant.levels for variant in plan.variants):
        for size in plan.sizes:
            own = ", ".join(f"{arm.lr:.3g}" for arm in plan.arms_of(size))
            yield f"learning rates of the variants{'' if size == 'only' else f', {size}'}: {own}"
    elif settings.lr == "tune" and tuned:
        yield f"learning rate: tuned for each, {len(plan.tuning_seeds)} seeds each of {rates}"
    elif settings.lr == "shared":
        yield f"learning rate: tuned for the base alone ({rates}), not for each variant"
    else:
        yield "learning rate: not tuned"
    yield f"seeds: {len(plan.seeds)}, paired, from {plan.seeds[0]} to {plan.seeds[-1]}; score: {plan.unit}"
    if settings.contexts:
        yield f"confirmed models are scored in windows of {', '.join(map(str, settings.contexts))} tokens, too"
    time = "" if plan.seconds is None else f", about {about(plan.seconds)}, {plan.at_once} at once"
    there = f", of which {plan.there} are there already" if plan.there else ""
    yield f"runs: {sum(map(plan.runs, plan.arms))}{there}{time}"
    run = [arm for arm in plan.arms_of(plan.sizes[-1]) if arm.costs.ratio and plan.runs(arm)]
    ratios = [f"{arm.variant} {arm.costs.ratio}" for arm in run[1:]]
    if ratios:
        yield f"time of a run, times that of {plan.base}, with its {INTERVAL}: {'; '.join(ratios)}"
    if plan.detectable is not None and plan.noise is not None:
        yield (
            f"detectable difference: {plan.detectable:.2g} {plan.unit}, with a power of 80 %, if paired differences"
            f" vary by {plan.noise:.2g} ({plan.noise_source})"
        )
    yield from filter(None, [plan.revision])
