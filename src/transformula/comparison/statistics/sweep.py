"""Variants that differ in their learning rate alone: which of the rates has the best mean, and whether it lies inside.

Scores are of the runs that confirm, so that no seed was used before. Where some arms were stopped early, each is taken
by its paired differences to the arm with the most runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from ...inspection.rate_curves import RateCurve, curve_of
from ..records import Key, Outcome, Variant, outcomes_of

Scores = Mapping[int, float | None]  # seed -> score; None where the run diverged or failed


@dataclass(frozen=True)
class RateSweep:
    """The rates of one model at one size.

    size      "small", ...
    variants  rate -> the variant that has it
    others    what else `vary` gave these variants, and the model where there are several: "pre-norm, warmup=0.1"
    seeds     of the arm with the most runs
    lost      rate -> runs of it that did not reach their end
    """

    size: str
    variants: Mapping[float, Variant]
    others: str
    seeds: int
    lost: Mapping[float, int]
    curve: RateCurve

    def typed(self, rate: float) -> str:
        """A rate as it was typed: "auto/2"."""
        return str(self.variants[rate].levels["lr"])


def sweeps(
    variants: Sequence[Variant], outcomes: Sequence[Outcome], rates: Mapping[Key, float], lower: bool
) -> list[RateSweep]:
    """A sweep of each model that was run at two rates or more, at each size; a model none of whose runs ended is left
    out."""
    varied = [variant for variant in variants if "lr" in variant.levels]
    several = len({variant.typed for variant in varied}) > 1
    groups: dict[tuple[str, str], dict[float, Variant]] = {}
    for variant in varied:
        key = json.dumps([variant.typed, variant.model, other_levels(variant)], default=str)
        for size in dict.fromkeys(size for _, size in rates):
            if (variant.name, size) in rates:
                groups.setdefault((key, size), {})[rates[variant.name, size]] = variant
    swept = []
    for (_, size), group in groups.items():
        scores = {rate: scores_by_seed(outcomes, variant.name, size) for rate, variant in group.items()}
        curve = curve_of(means(scores), lower) if len(group) > 1 else None
        if curve is None:
            continue
        first = next(iter(group.values()))
        others = [*([first.typed] if several else []), *(f"{key}={v}" for key, v in other_levels(first).items())]
        lost = {rate: sum(score is None for score in own.values()) for rate, own in scores.items()}
        swept.append(RateSweep(size, group, ", ".join(others), max(map(len, scores.values())), lost, curve))
    return swept


def other_levels(variant: Variant) -> dict[str, Any]:
    return {key: value for key, value in variant.levels.items() if key != "lr"}


def scores_by_seed(outcomes: Sequence[Outcome], variant: str, size: str) -> Scores:
    """The scores of an arm by seed."""
    return {o.seed: o.score if o.status == "done" else None for o in outcomes_of(outcomes, variant, size)}


def means(scores: Mapping[float, Scores]) -> dict[float, float | None]:
    """The mean score at each rate, over the seeds of the rate with the most: one of fewer by its paired differences.
    None where a run did not end."""
    whole = {rate: {seed: s for seed, s in own.items() if s is not None} for rate, own in scores.items()}
    ended = {rate: own for rate, own in whole.items() if own and len(own) == len(scores[rate])}
    if not ended:
        return dict.fromkeys(scores)
    most = max(ended.values(), key=len)

    def at(rate: float) -> float | None:
        shared = ended[rate].keys() & most.keys() if rate in ended else set()
        return mean(most.values()) + mean(ended[rate][s] - most[s] for s in shared) if shared else None

    return {rate: at(rate) for rate in scores}
