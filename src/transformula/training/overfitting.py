"""Where training and validation part: the loss in training still falls, and that of validation rises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from ..runs.log import Point, points_of

MIN_LATER_EVALUATIONS = 3  # than the lowest one
MIN_RISE_SHARE, MIN_RISE_NATS = 0.01, 0.02  # of each of the last evaluations above the lowest one: of it, and at all
OF_LOSS = ("loss", "bits_per_byte")  # scores whose noise is that of the loss


@dataclass(frozen=True)
class Parting:
    """The step of the lowest validation loss, and what came of both losses after it.

    step                     of that evaluation; evaluations: how many there were later
    validation, validated    the loss of that one, and of the last one
    training, trained        the mean loss in training before that step, and at the end, over as many steps each
    """

    step: int
    evaluations: int
    validation: float
    validated: float
    training: float
    trained: float

    def __str__(self) -> str:
        return (
            f"overfitting since step {self.step:,}: in {self.evaluations} evaluations the validation loss rose from"
            f" {self.validation:.4f} to {self.validated:.4f}, while the training loss fell from {self.training:.4f} to"
            f" {self.trained:.4f}"
        )


def parting_of(events: Iterable[Mapping[str, Any]]) -> Parting | None:
    """Find in a run's log where the two losses part; None where they do not: fewer than three evaluations after the
    lowest one; one of the last three within 1 % or 0.02 nats of it; a last one that differs from the best by noise; a
    loss in training that does not fall, or not below the lowest one of validation, since what is not yet fitted is not
    overfitted. Evaluations of all rows and of a sample are not compared: those of which there are more are taken."""
    known = list(events)
    evaluated = max(points_of(known, "evaluation"), key=len)
    trained, _ = points_of(known, "step")
    if len(evaluated) <= MIN_LATER_EVALUATIONS:
        return None
    step, lowest = min(evaluated, key=lambda point: point[1])
    later = [loss for at, loss in evaluated if at > step]
    risen = lowest + max(MIN_RISE_SHARE * abs(lowest), MIN_RISE_NATS)
    if len(later) < MIN_LATER_EVALUATIONS or min(later[-MIN_LATER_EVALUATIONS:]) < risen:
        return None
    last = next(event for event in reversed(known) if event["event"] == "evaluation")
    if last.get("within_noise") and last.get("selected") in OF_LOSS:
        return None
    end = max(at for at, _ in trained) if trained else step
    span = min(step, end - step) / 2
    before, after = mean_between(trained, step - span, step), mean_between(trained, end - span, end)
    if before is None or after is None or after >= min(before, lowest):
        return None
    return Parting(int(step), len(later), lowest, later[-1], before, after)


def mean_between(points: Sequence[Point], first: float, last: float) -> float | None:
    """The mean of the points later than `first`, up to `last`; None where there are none."""
    inside = [loss for at, loss in points if first < at <= last]
    return mean(inside) if inside else None
