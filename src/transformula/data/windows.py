"""Batches of windows of a row of tokens, as a pure function of (seed, step, micro-batch).

An epoch begins at an offset of its own and cuts the row into windows of `context` tokens, so that no token is predicted
twice in an epoch, cuts differ from epoch to epoch, and to resume needs only the step.

    Windows           each window once, in an order of the epoch's own
    ContinuedWindows  the row is cut into strips of equal length, one for each row of a step's micro-batches, and these
                      are read side by side: row r of step s + 1 begins with the token after the last one of row r of
                      step s, until all strips end, at one step. Which row reads which strip is the epoch's own, too
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import DataError

if TYPE_CHECKING:
    from .tokens import Tokens

BLOCK = 1024  # places of the order that are computed at once: a thousand cost little more than one
ROUNDS = 8
U64 = np.uint64


def mix(value: Any) -> Any:
    """A hash of 64 bits to 64 bits, each bit of it dependent on all (the finalizer of splitmix64)."""
    value = np.asarray(value, dtype=np.uint64)
    with np.errstate(over="ignore"):
        value = (value ^ (value >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> U64(27))) * U64(0x94D049BB133111EB)
    return value ^ (value >> U64(31))


@lru_cache(maxsize=4096)
def key(*numbers: int) -> int:
    """One key of 64 bits from several whole numbers; each counts, and so does their order."""
    state: Any = U64(0x9E3779B97F4A7C15)
    for number in numbers:
        with np.errstate(over="ignore"):
            state = mix(state + U64(0x9E3779B97F4A7C15) + mix(U64(number & 0xFFFFFFFFFFFFFFFF)))[()]
    return int(state)


class Permutation:
    """A permutation of 0 to `size - 1`, chosen by a key: `Permutation(size, seed, epoch)(indices)`. A pure function of
    (size, keys, index); memory and time do not depend on `size`.

    A Feistel network permutes the numbers of an even count of bits: a number is two halves, and round after round one
    half is changed by a keyed hash of the other, which can always be undone. Numbers that land outside the wanted range
    go through the network again (cycle walking), at most four times on average.

    Source: Luby, Rackoff 1988; Black, Rogaway 2002.
    """

    def __init__(self, size: int, *keys: int) -> None:
        if size < 1:
            raise ValueError(f"a permutation of {size} things")
        self.size = size
        self._half = U64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._mask = U64((1 << int(self._half)) - 1)
        self._keys = [U64(key(*keys, r)) for r in range(ROUNDS)]

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        """Where the indices go: int64, of the same shape. Raises ValueError for an index out of range."""
        indices = np.asarray(indices)
        if indices.size and not 0 <= indices.min() <= indices.max() < self.size:
            raise ValueError(f"indices must be 0 to {self.size - 1}")
        value = self._network(indices.astype(np.uint64))
        outside = value >= U64(self.size)
        while outside.any():
            value[outside] = self._network(value[outside])
            outside = value >= U64(self.size)
        return value.astype(np.int64)

    def _network(self, value: np.ndarray) -> np.ndarray:
        left, right = value >> self._half, value & self._mask
        for round_key in self._keys:
            left, right = right, left ^ (mix(right ^ round_key) & self._mask)
        return (left << self._half) | right


@lru_cache(maxsize=8)
def permuted_indices(size: int, keys: tuple[int, ...], first: int = 0, end: int | None = None) -> np.ndarray:
    """Where `Permutation(size, *keys)` puts the indices `first` to `end` - 1, or all; kept for the next call."""
    order = Permutation(size, *keys)(np.arange(first, size if end is None else min(end, size)))
    order.flags.writeable = False  # it is shared by all that ask for it
    return order


class WindowOrder(ABC):
    """What each batch of a training holds: `batch` windows of `context + 1` tokens (inputs, and targets one further),
    `accumulate` times a step, in an order of `seed`'s. A row of known length is read by a permutation of its windows,
    a stream by readers, of which each has a place.

    count  windows in an epoch; None where it is not known before all is read
    """

    count: int | None = None

    def __init__(self, context: int, batch: int, accumulate: int = 1, seed: int = 0) -> None:
        self.context, self.batch, self.accumulate, self.seed = context, batch, accumulate, seed

    @property
    def rows(self) -> int:
        """Rows of a step."""
        return self.batch * self.accumulate

    @abstractmethod
    def steps(self, epochs: float) -> int:
        """The fewest steps that see each window `epochs` times. Raises ConfigError where it is not known."""

    @abstractmethod
    def at(self, step: int, micro: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a batch: (batch, context) int64 each. Steps and micro-batches count from 0."""


class Windows(WindowOrder):
    """Windows of a row of `ids`, (tokens,). Raises DataError, with the `name` of the data, for a row that is too short.

    count  windows in an epoch
    slack  how many offsets there are to begin an epoch at
    """

    def __init__(
        self,
        ids: Tokens | np.ndarray,
        context: int,
        batch: int,
        accumulate: int = 1,
        seed: int = 0,
        name: str = "the training text",
    ) -> None:
        super().__init__(context, batch, accumulate, seed)
        self.ids = ids
        needed, why, remedy = self.needs()
        if len(ids) < needed:
            raise DataError(f"{name} is too short: {len(ids)} tokens; {why} {needed}; take more text{remedy}")
        self.count: int
        self.count, self.slack = self.cut()

    def needs(self) -> tuple[int, str, str]:
        """How many tokens it needs at least, why, and what else helps where there are fewer."""
        return self.context + 1, f"a window of context {self.context} needs", " or a smaller context"

    def cut(self) -> tuple[int, int]:
        """`count` and `slack`."""
        count = max(1, (len(self.ids) - self.context) // self.context)
        return count, min(self.context, len(self.ids) - count * self.context)

    def steps(self, epochs: float) -> int:
        return math.ceil(epochs * self.count / self.rows - 1e-9)

    def starts(self, step: int, micro: int = 0) -> np.ndarray:
        """Where the windows of a batch begin: (batch,) int64. Steps and micro-batches count from 0."""
        at = (step * self.accumulate + micro) * self.batch
        end = at + self.batch
        parts = []
        while at < end:
            epoch, place = divmod(at, self.count)
            first = place % BLOCK
            block = permuted_indices(self.count, (self.seed, epoch), place - first, place - first + BLOCK)
            parts.append(key(self.seed, epoch, 1) % self.slack + block[first : first + end - at] * self.context)
            at += len(parts[-1])
        return np.concatenate(parts)

    def at(self, step: int, micro: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self.starts(step, micro)[:, None] + np.arange(self.context + 1)
        row = torch.from_numpy(self.ids[rows].astype(np.int64))
        return row[:, :-1].contiguous(), row[:, 1:].contiguous()


class ContinuedWindows(Windows):
    """The same where each row goes on from step to step. What does not fill a strip is left out, another part in each
    epoch; needs batch * accumulate * context + 1 tokens."""

    def needs(self) -> tuple[int, str, str]:
        why = f"{self.rows} rows that each go on from batch to batch, by segments of {self.context}, need"
        return self.rows * self.context + 1, why, ", a smaller batch or context"

    def cut(self) -> tuple[int, int]:
        count = (len(self.ids) - 1) // (self.rows * self.context) * self.rows
        return count, len(self.ids) - count * self.context

    @property
    def strip(self) -> int:
        """Windows in a strip: steps in an epoch."""
        return self.count // self.rows

    def begins(self, step: int) -> bool:
        """Whether the rows of a step begin their strips: nothing goes on from the step before."""
        return step % self.strip == 0

    def starts(self, step: int, micro: int = 0) -> np.ndarray:
        epoch, place = divmod(step, self.strip)
        strips = permuted_indices(self.rows, (self.seed, epoch))[micro * self.batch : (micro + 1) * self.batch]
        return key(self.seed, epoch, 1) % self.slack + (strips * self.strip + place) * self.context
