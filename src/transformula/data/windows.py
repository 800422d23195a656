"""Batches of windows of a row of tokens, as a pure function of (seed, step, micro-batch).

An epoch cuts the row into windows of `context` tokens, from an offset of its own, and visits each once, in an order of
its own. So no token is predicted twice in an epoch, cuts differ from epoch to epoch, and to resume needs only the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..errors import DataError
from .order import Permutation, key


@dataclass(frozen=True)
class Windows:
    """Windows of `context + 1` tokens (inputs, and targets one further), `batch` at a time, `accumulate` times a step.

    ids  (tokens,) the row; needs context + 1 of them
    name what an error calls the data

    Raises DataError for a row that is too short.
    """

    ids: np.ndarray
    context: int
    batch: int
    accumulate: int = 1
    seed: int = 0
    name: str = "the training text"

    def __post_init__(self) -> None:
        if len(self.ids) <= self.context:
            raise DataError(
                f"{self.name} is too short: {len(self.ids)} tokens; a window of context {self.context} needs"
                f" {self.context + 1}; take more text or a smaller context"
            )

    @property
    def slack(self) -> int:
        """How many offsets there are to begin an epoch at."""
        return min(self.context, len(self.ids) - self.count * self.context)

    @property
    def count(self) -> int:
        """Windows in an epoch."""
        return max(1, (len(self.ids) - self.context) // self.context)

    def epochs(self, steps: int) -> float:
        """How often each window is seen in so many steps."""
        return steps * self.accumulate * self.batch / self.count

    def starts(self, step: int, micro: int = 0) -> np.ndarray:
        """Where the windows of a batch begin: (batch,) int64. Steps and micro-batches count from 0."""
        first = (step * self.accumulate + micro) * self.batch
        epochs, places = np.divmod(first + np.arange(self.batch, dtype=np.int64), self.count)
        starts = np.empty(self.batch, dtype=np.int64)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            order = Permutation(self.count, self.seed, epoch)
            starts[here] = order(places[here]) * self.context + key(self.seed, epoch, 1) % self.slack
        return starts

    def at(self, step: int, micro: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a batch: (batch, context) int64 each."""
        rows = self.starts(step, micro)[:, None] + np.arange(self.context + 1)
        row = torch.from_numpy(self.ids[rows].astype(np.int64))
        return row[:, :-1].contiguous(), row[:, 1:].contiguous()
