"""Selective classification: nothing is said where too little is known.

    coverage(t) = rows of confidence t or more / all rows
    accuracy(t) = the right ones among them / them

El-Yaniv and Wiener 2010; Geifman and El-Yaniv 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

MAX_POINTS = 200  # of a curve
FEWEST_ROWS = 20  # answered ones, for their accuracy to say anything


class Point(NamedTuple):
    """A point counts the rows whose confidence is `threshold` or more, and the right ones among them."""

    threshold: float
    rows: int
    right: int

    @property
    def accuracy(self) -> float:
        return self.right / self.rows


def risk_coverage(confidence: Sequence[float] | Any, right: Sequence[bool] | Any) -> list[Point]:
    """The curve of accuracy and coverage of rows with these confidences (rows,), the highest threshold first."""
    order = np.argsort(-np.asarray(confidence), kind="stable")
    sure, correct = np.asarray(confidence)[order], np.cumsum(np.asarray(right, dtype=np.int64)[order])
    ends = np.flatnonzero(np.append(sure[1:] != sure[:-1], True)) if len(sure) else np.zeros(0, np.int64)
    if len(ends) > MAX_POINTS:
        ends = ends[np.linspace(0, len(ends) - 1, MAX_POINTS).round().astype(np.int64)]
    return [Point(float(sure[end]), int(end) + 1, int(correct[end])) for end in ends]


def threshold_for(curve: Sequence[Sequence[float]], accuracy: float) -> Point | None:
    """The point of most rows at which this accuracy is reached; None where there is none of enough rows."""
    points = [Point(float(t), int(rows), int(right)) for t, rows, right in curve if rows >= FEWEST_ROWS]
    reached = [point for point in points if point.accuracy >= accuracy]
    return max(reached, key=lambda point: point.rows, default=None)
