"""Scores on the parts of a validation set: how much a score would differ on other data is seen in how much these do."""

from __future__ import annotations

import numpy as np
from torch import nn

from .base import Task, part_of

MAX_PARTS = 50  # enough for a standard deviation that is right to 10 %


def part_scores(task: Task, model: nn.Module, score: str, parts: int = MAX_PARTS) -> tuple[list[float], list[float]]:
    """A score on each of at most `parts` parts of the validation set, neighbors together, and how much each counts: its
    bytes, else its tokens, else its rows.

    Of a score that is a mean over these, the weighted mean is the score on the whole. It costs one evaluation. Empty
    where the validation set has no parts: for a task that cannot look at some rows alone, and for a model that carries
    on through the whole text.
    """
    whole = 0 if getattr(model, "carry", 0) else task.validation_rows
    scores, weights = list[float](), list[float]()
    for rows in np.array_split(np.arange(whole), min(parts, whole)) if whole else ():
        evaluated = part_of(task, rows).evaluate(model)
        scores.append(float(evaluated[score]))
        weights.append(float(evaluated.get("bytes", evaluated.get("tokens", len(rows)))))
    return scores, weights
