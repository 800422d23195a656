"""How far a run is: plain numbers, kept in every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import CheckpointError

Count = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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
    best_scores      of that model, and `best_on` what of the validation set they are of; "" is all
    worse            evaluations since then
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    step: Count = 0
    units: Count = 0
    seconds: Seconds = 0.0
    evaluated: Count = 0
    evaluated_units: Count = 0
    tenths: Count = 0
    reserve: Seconds = 0.0
    evaluating: Seconds = 0.0
    evaluating_last: Seconds = 0.0
    sample: Count | None = None
    whole: Count = 0
    best: float | None = None
    best_step: Count = 0
    best_on: str = ""
    averaged: Count = 0
    worse: Count = 0
    scores: dict[str, float] = field(default_factory=dict)
    best_scores: dict[str, float] = field(default_factory=dict)
    loss_sum: float = 0.0
    loss_count: Count = 0
    named_sums: dict[str, float] = field(default_factory=dict)


def read_position(state: Mapping[str, Any], path: Path) -> Position:
    """The position that a checkpoint's state says. Raises CheckpointError that names each wrong key."""
    try:
        return TypeAdapter(Position).validate_python(dict(state))
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc'])) or 'state'}: {one['msg'].lower()}" for one in error.errors()[:4]]
        raise CheckpointError(f"{path}: damaged: {'; '.join(wrong)}; remove this checkpoint's folder") from None
