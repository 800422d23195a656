"""A plan as the table that a person reads: what `--dry-run` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..cost.words import AMOUNTS, about, bytes_in_words, in_units, of_a_step, table

if TYPE_CHECKING:
    from .plan import ComparisonPlan
    from .records import Arm

HEAD = (
    "", "size", "parameters", "embeddings", "FLOPs/token", "steps", "tokens", "FLOPs", "memory", "step", "runs",
    "a run",
)  # fmt: skip
MATCHED = {"tokens": "tokens seen", "parameters": "parameters", "flops": "FLOPs", "time": "seconds of training"}


def plan_text(plan: ComparisonPlan) -> str:
    """Costs of each arm, then runs, seeds, time, what can be detected, and what was chosen."""
    rows = [HEAD, *(arm_cells(plan, arm) for arm in plan.arms)]
    lines = table(rows, left=2)
    adjusted = [f"{arm.variant}, {arm.size}: {arm.adjusted}" for arm in plan.arms if arm.adjusted]
    return "\n".join([f"{plan.name} (plan {plan.hash})", *lines, "", *told(plan), *adjusted, *plan.notes])


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


def told(plan: ComparisonPlan) -> Iterator[str]:
    """What is equal, the rates, the seeds, the time and the detectable effect, a sentence each."""
    settings, runs = plan.settings, sum(map(plan.runs, plan.arms))
    yield f"equal: {MATCHED[settings.match]}; everything else is as the table says"
    tuned = [arm for arm in plan.arms if plan.tuned(arm)]
    grids = {tuple(plan.rates(arm)) for arm in tuned}
    shown = "; ".join(", ".join(f"{rate:.3g}" for rate in grid) for grid in sorted(grids))
    stated = any("lr" in variant.levels for variant in plan.variants)
    if stated:
        for size in plan.sizes:
            own = ", ".join(f"{arm.lr:.3g}" for arm in plan.arms_of(size))
            yield f"learning rates of the variants{'' if size == 'only' else f', {size}'}: {own}"
    elif settings.lr == "tune" and tuned:
        yield f"learning rate: tuned for each, {len(plan.tuning_seeds)} seeds each of {shown}"
    elif settings.lr == "shared":
        yield f"learning rate: tuned for the base alone ({shown}), not for each variant"
    else:
        yield "learning rate: not tuned"
    yield f"seeds: {len(plan.seeds)}, paired, from {plan.seeds[0]} to {plan.seeds[-1]}; score: {plan.unit}"
    time = "" if plan.seconds is None else f", about {about(plan.seconds)}, {plan.at_once} at once"
    yield f"runs: {runs}{time}"
    if plan.detectable is not None and plan.noise is not None:
        yield (
            f"detectable difference: {plan.detectable:.2g} {plan.unit}, with a power of 80 %, if paired differences"
            f" vary by {plan.noise:.2g} ({plan.noise_source})"
        )
