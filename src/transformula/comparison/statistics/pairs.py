"""Runs of a variant beside those of the base: paired by seed, and what has no pair.

A run that diverged is an outcome, not a gap. It diverged if its training said so, or if its loss is above twice the
base's and no lower than at the start of training. Twice alone would not do: where the base comes near to a loss of
0, a variant that learns half of the task would count as diverged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..records import Outcome, outcomes_of
from .paired import unequal_counts

WORST = 2.0  # times the base's loss: a run above it that has not learned counts as diverged
ROUNDING = 1e-6  # of the base's score: smaller differences are the order of sums, not the model


@dataclass(frozen=True)
class Pairs:
    """Runs that confirm, of one variant and of the base at one size; those that failed are left out.

    variant, base        score by seed, of the runs that ended
    diverged             seeds of the variant whose run diverged; base_diverged: the base's
    """

    variant: Mapping[int, float]
    base: Mapping[int, float]
    diverged: frozenset[int]
    base_diverged: frozenset[int]

    @property
    def seeds(self) -> list[int]:
        """Seeds at which both ended with a score."""
        return sorted(self.variant.keys() & self.base.keys())

    @property
    def differences(self) -> tuple[tuple[int, float], ...]:
        """(seed, variant minus base), in the score's unit; 0 where only rounding differs."""
        return tuple((seed, difference(self.variant[seed], self.base[seed])) for seed in self.seeds)

    @property
    def none_ended(self) -> bool:
        """Whether all runs of both diverged: more seeds would say nothing."""
        return bool(self.diverged and self.base_diverged) and not self.variant and not self.base

    def count(self, of_base: bool = False) -> tuple[int, int]:
        """(runs that diverged, all that ended or diverged)."""
        diverged, ended = (self.base_diverged, self.base) if of_base else (self.diverged, self.variant)
        return len(diverged), len(diverged) + len(ended)

    def share(self, of_base: bool = False) -> float:
        """The part of the runs that diverged; 0 where there are none."""
        diverged, runs = self.count(of_base)
        return diverged / runs if runs else 0.0

    def same_share_p(self) -> float:
        """Exact p of variant and base diverging equally often, of the seeds that both ran."""
        only = len(self.diverged & self.base.keys()), len(self.base_diverged & self.variant.keys())
        return unequal_counts(*only)


def difference(score: float, base: float) -> float:
    return 0.0 if abs(score - base) <= ROUNDING * abs(base) else score - base


def runs_of(outcomes: Sequence[Outcome], variant: str, size: str) -> dict[int, Outcome]:
    """Runs that confirm, by seed, without those that failed."""
    return {o.seed: o for o in outcomes_of(outcomes, variant, size) if o.status != "failed"}


def pair(outcomes: Sequence[Outcome], variant: str, base: str, size: str, lower: bool) -> Pairs:
    """The variant's runs and the base's. `lower`: less of the score is better."""
    ours, theirs = runs_of(outcomes, variant, size), runs_of(outcomes, base, size)
    usual = [loss for run in theirs.values() if (loss := loss_of(run, lower)) is not None]
    limit = WORST * median(usual) if usual else math.inf
    limits = {seed: WORST * loss for seed, run in theirs.items() if (loss := loss_of(run, lower)) is not None}
    base_diverged = frozenset(seed for seed, run in theirs.items() if has_diverged(run, limit, lower))
    diverged = frozenset(
        seed
        for seed, run in ours.items()
        if has_diverged(run, limit if seed in base_diverged else limits.get(seed, limit), lower)
    )
    return Pairs(
        {seed: run.score for seed, run in ours.items() if seed not in diverged and run.score is not None},
        {seed: run.score for seed, run in theirs.items() if seed not in base_diverged and run.score is not None},
        diverged,
        base_diverged,
    )


def has_diverged(run: Outcome, limit: float, lower: bool) -> bool:
    if run.status == "diverged" or run.score is None or not math.isfinite(run.score):
        return True
    loss = loss_of(run, lower)
    return loss is not None and loss > limit and not (run.curve and loss < run.curve[0][3])


def loss_of(run: Outcome, lower: bool) -> float | None:
    """The positive loss of a run that ended: its evaluation's, or the score where less of it is better."""
    loss = run.scores.get("loss", run.score if lower else None)
    return loss if loss is not None and math.isfinite(loss) and loss > 0 and run.status == "done" else None
