"""Whether the base has learned what a simple model of the same data does not know. Where it has not, a comparison says
only how fast the first steps go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ...tasks.scores.bar import bar_of, in_words, passes
from ..records import Arm, Outcome, outcomes_of


@dataclass(frozen=True)
class Unlearned:
    """A base that is no better than the simplest model of its data: that model's name and its score, `bar`, the mean
    score of the base, and the steps of its runs."""

    name: str
    bar: float
    mean: float
    steps: int

    @property
    def model(self) -> str:
        """'a 3-gram'"""
        return in_words(self.name)


def unlearned(outcomes: Sequence[Outcome], base: Arm | None, lower: bool) -> Unlearned | None:
    """What is to be said of a base whose runs that confirm are, in the mean, no better than the simplest model; None
    where they are, or where there is none."""
    bar = bar_of(next((o.baselines for o in outcomes if o.baselines), {}), lower)
    runs = outcomes_of(outcomes, base.variant, base.size) if base else []
    scores = [outcome.score for outcome in runs if outcome.score is not None]
    if base is None or bar is None or not scores or passes(fmean(scores), bar[1], lower):
        return None
    return Unlearned(*bar, fmean(scores), base.costs.steps)
