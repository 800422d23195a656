"""Batches of segments that go on where the last batch's ended, as a pure function of (seed, step, micro-batch).

An epoch cuts the row of tokens into strips of equal length, one for each row of a step's micro-batches, and reads them
side by side, `context` tokens a step. So row r of step s + 1 begins with the token after the last one of row r of step
s, until the strips end, all at one step; then an epoch begins, with cuts and an order of strips of its own. What does
not fill a strip is left out, another part in each epoch.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
import torch

from ..errors import DataError
from .order import Permutation, key


class Streams:
    """Segments of `context + 1` tokens (inputs, and targets one further), `batch` at a time, `accumulate` times a step.

    ids   (tokens,) the row; needs batch * accumulate * context + 1 of them
    name  what an error calls the data

    Raises DataError for a row that is too short.
    """

    def __init__(
        self,
        ids: np.ndarray,
        context: int,
        batch: int,
        accumulate: int = 1,
        seed: int = 0,
        name: str = "the training text",
    ) -> None:
        self.rows = batch * accumulate
        if len(ids) <= self.rows * context:
            raise DataError(
                f"{name} is too short: {len(ids)} tokens; {self.rows} rows that each go on from batch to batch, by "
                f"segments of {context}, need {self.rows * context + 1}; take more text, a smaller batch or context"
            )
        # A plain view of the mapped file: indexing a memmap itself costs several times as much.
        self.ids = np.asarray(ids)
        self.context, self.batch, self.accumulate, self.seed = context, batch, accumulate, seed

    @cached_property
    def strip(self) -> int:
        """Segments in a strip: steps in an epoch."""
        return (len(self.ids) - 1) // (self.rows * self.context)

    @cached_property
    def count(self) -> int:
        """Segments in an epoch."""
        return self.strip * self.rows

    @cached_property
    def slack(self) -> int:
        """How many offsets there are to begin an epoch at."""
        return len(self.ids) - self.count * self.context

    def epochs(self, steps: int) -> float:
        """How often each segment is seen in so many steps."""
        return steps / self.strip

    def steps(self, epochs: float) -> int:
        """The least number of steps that sees each segment so often."""
        return math.ceil(epochs * self.strip - 1e-9)

    def begins(self, step: int) -> bool:
        """Whether the rows of a step begin their strips: nothing goes on from the step before."""
        return step % self.strip == 0

    def starts(self, step: int, micro: int = 0) -> np.ndarray:
        """Where the segments of a batch begin: (batch,) int64. Steps and micro-batches count from 0."""
        epoch, place = divmod(step, self.strip)
        strips = _strips(self.rows, self.seed, epoch)[micro * self.batch : (micro + 1) * self.batch]
        offset = key(self.seed, epoch, 1) % self.slack
        starts: np.ndarray = offset + (strips * self.strip + place) * self.context
        return starts

    def at(self, step: int, micro: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a batch: (batch, context) int64 each."""
        rows = self.starts(step, micro)[:, None] + np.arange(self.context + 1)
        row = torch.from_numpy(self.ids[rows].astype(np.int64))
        return row[:, :-1].contiguous(), row[:, 1:].contiguous()


@lru_cache(maxsize=16)
def _strips(rows: int, seed: int, epoch: int) -> np.ndarray:
    """Which strip each row reads in an epoch."""
    strips: np.ndarray = Permutation(rows, seed, epoch)(np.arange(rows, dtype=np.int64))
    strips.flags.writeable = False  # it is shared by all that ask for it
    return strips
