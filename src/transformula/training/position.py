"""How far a run is: plain numbers, kept in every checkpoint; and when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import CheckpointError

TENTHS = 10  # evaluations in a run where no number of steps between them is given

Count = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Limits:
    """A run ends after steps, units (tokens) or seconds, whichever comes first; each may be None.

    `reserve` are seconds kept free at the end of a run limited by time, for what comes after the last step.
    """

    steps: int | None = None
    units: int | None = None
    seconds: float | None = None

    def progress(self, steps: float, units: float, seconds: float, reserve: float = 0.0) -> float:
        """The share of the run that is done, 0 to 1: that of the limit which is nearest."""
        shares = [done / limit for done, limit in ((steps, self.steps), (units, self.units)) if limit]
        if self.seconds:
            shares.append(seconds / max(self.seconds - reserve, 1e-9))
        return min(1.0, max(shares, default=0.0))

    def reached(self, steps: int, units: int, seconds: float, reserve: float = 0.0) -> str:
        """Which limit is reached, in words; "" if none."""
        if self.steps and steps >= self.steps:
            return f"all {self.steps:,} steps made"
        if self.units and units >= self.units:
            return f"all {self.units:,} units seen"
        if self.seconds and seconds + reserve >= self.seconds:
            return f"{self.seconds / 60:g} minutes are over"
        return ""


@dataclass
class Position:
    """Where a run stands. Times in seconds.

    evaluated        the step of the latest evaluation, and `evaluated_units` the units seen by then
    tenths           tenths of the run that have been evaluated
    reserve          time kept free at the end for the last evaluation
    evaluating       time spent on evaluations, `evaluating_last` on the latest one
    sample           what evaluations on the way may cost, in units of training; 0: they see the whole validation set;
                     None: not settled yet
    whole            the step at which the whole set was evaluated after samples
    best             the lowest value of the selected score, on the validation rows that evaluations on the way see
    best_loss        the loss on the same rows, which decides between equal values
    best_sha256      of that model's weights; "" in a checkpoint of an older version
    best_resampled   the selected score of that model on resamples of these rows; empty where its noise is not known
    best_scores      of that model, and `best_on` what of the validation set they are of; "" is all
    worse            evaluations since the last one that was better in its score or, with the same score, in its loss
    recent           the last losses, where spikes are looked for
    anchor           the step of the last checkpoint that was planned: not one of an interruption, nor of the clock
    left_out         steps whose batch was left out, and `left_out_in_a_row` those since the last good one or, where
                     a run rolls back, since the anchor
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    step: Count = 0
    units: Count = 0
    seconds: Seconds = 0.0
    cpu_seconds: Seconds = 0.0
    evaluated: Count = 0
    evaluated_units: Count = 0
    tenths: Count = 0
    reserve: Seconds = 0.0
    evaluating: Seconds = 0.0
    evaluating_last: Seconds = 0.0
    sample: Count | None = None
    whole: Count = 0
    best: float | None = None
    best_loss: float | None = None
    best_step: Count = 0
    best_sha256: str = ""
    best_resampled: list[float] = field(default_factory=list)
    best_on: str = ""
    averaged: Count = 0
    worse: Count = 0
    scores: dict[str, float] = field(default_factory=dict)
    best_scores: dict[str, float] = field(default_factory=dict)
    loss_sum: float = 0.0
    loss_count: Count = 0
    recent: list[float] = field(default_factory=list)
    anchor: Count = 0
    left_out: Count = 0
    left_out_in_a_row: Count = 0
    named_sums: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def read(state: Mapping[str, Any], path: Path) -> Position:
        """The position that a checkpoint's state says. Raises CheckpointError that names each wrong key."""
        try:
            return TypeAdapter(Position).validate_python(dict(state))
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, one['loc'])) or 'state'}: {one['msg'].lower()}" for one in error.errors()[:4]]
            raise CheckpointError(f"{path}: damaged: {'; '.join(wrong)}; remove this checkpoint's folder") from None
