"""Batches of rows of like lengths under a budget of tokens, as a pure function of (seed, step, micro-batch).

A layout puts rows into pools by their lengths: all rows are one pool at first, and a pool is cut in two, along the
side and at the length where the cut saves the most padding, as long as both parts fill a batch. There are a few
layouts, with cuts a little apart and equal lengths in other orders, and the epochs take turns with them. In an epoch
each pool is permuted with a key of its own and dealt out to batches, and the batches of all pools are visited in a
keyed order. So each row is seen once an epoch, and with others in the next; how many batches an epoch has is known
beforehand, and any batch can be asked for by its number: to resume needs only the step.

    round of epochs = as many as there are layouts;  round, place = divmod(batch's number, batches of all layouts)
    batch = slot Permutation(batches of the epoch, seed, epoch)(place in the epoch)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError, DataError
from .windows import Permutation, key, permuted_indices

LAYOUTS = 4  # ways to put the rows into pools, with which the epochs take turns
PADDING_NOISE = 0.03  # by how much the padding that a cut leaves is misjudged at random, so that layouts differ
BATCH_COST = 0.3  # what one batch more costs, as a share of a full one's tokens, beside the padding that it saves
MIN_FILL = 0.9  # how much of a batch each part of a cut fills at least
MAX_POOLS = 300  # at most about so many: of much data a pool holds many batches, which mixes its rows better

COUNTED = ("padded", "filled")
LONGEST, BOTH = "longest", "all"


@dataclass(frozen=True)
class Fill:
    """What an epoch's batches hold."""

    batches: int
    share: dict[str, float]  # real tokens among all positions, padding included; of each side, and "all" of them
    rows: tuple[int, float, int]  # of a batch: fewest, mean, most

    def __str__(self) -> str:
        sides = ", ".join(f"{name} {100 * part:.1f} %" for name, part in self.share.items())
        fewest, mean, most = self.rows
        return f"{self.batches:,} batches of {fewest} to {most} rows ({mean:.1f}); real tokens: {sides}"


@dataclass(frozen=True)
class Pools:
    """Rows put into pools: a layout."""

    order: np.ndarray  # (rows,) pool after pool
    first: np.ndarray  # (pools + 1,) where each pool begins in `order`, and the end
    batches: np.ndarray  # (pools + 1,) the number of each pool's first batch, and how many there are


class Buckets:
    """Batches of rows of like lengths.

    lengths     tokens of each row, (rows,) a side, with all that will be in the batch: {"source": ..., "target": ...}
    budget      tokens of a batch
    side        which tokens count: those of one side, by its name; "longest": of the longer side, row for row;
                "all": of all sides together
    counted     "padded": rows times the longest of the batch, padding included, never more than the budget;
                "filled": real tokens only, the budget on average over batches of like lengths
    accumulate  micro-batches of a step; each is a batch of the budget
    name        what an error calls the rows

    Raises DataError for no rows, an empty row, or one longer than the budget; ConfigError for an unknown side.
    """

    def __init__(
        self,
        lengths: Mapping[str, np.ndarray],
        budget: int,
        side: str = LONGEST,
        counted: str = "padded",
        accumulate: int = 1,
        seed: int = 0,
        name: str = "the training rows",
    ) -> None:
        if side not in (*lengths, LONGEST, BOTH):
            raise ConfigError(f"side: {side!r} is none of: {', '.join([*lengths, LONGEST, BOTH])}")
        if counted not in COUNTED:
            raise ConfigError(f"counted: {counted!r} is none of: {', '.join(COUNTED)}")
        self.sides = tuple(lengths)
        self.lengths = np.stack([np.asarray(lengths[one], dtype=np.int64) for one in self.sides], axis=1)
        self.budget, self.side, self.counted = budget, side, counted
        self.accumulate, self.seed = accumulate, seed
        alone = self._checked_cost(name)
        # What it costs to have one more batch, in padded tokens: a part of what a full batch holds of all sides.
        self._worth = BATCH_COST * budget * float(self.lengths.sum() / alone.sum())
        self._least = max(MIN_FILL, float(alone.sum()) / budget / MAX_POOLS)
        self.layouts = [self._layout(np.random.default_rng(key(seed, 3, number))) for number in range(LAYOUTS)]
        self._counts = [int(layout.batches[-1]) for layout in self.layouts]
        self._begins = np.cumsum([0, *self._counts])

    def _checked_cost(self, name: str) -> np.ndarray:
        """Tokens that each row counts for, (rows,). Raises DataError for rows that no batch can hold."""
        if not len(self.lengths):
            raise DataError(f"{name} are none; nothing can be drawn")
        empty = np.flatnonzero((self.lengths < 1).any(axis=1))
        if len(empty):
            raise DataError(
                f"{name}: row {empty[0] + 1} has a side of no tokens (rows are counted from 1; {len(empty)} in all);"
                " leave empty rows out"
            )
        cost = self._cost(self.lengths)
        worst = int(cost.argmax())
        if cost[worst] > self.budget:
            count = int((cost > self.budget).sum())
            raise DataError(
                f"{name}: row {worst + 1} takes {cost[worst]} tokens (side: {self.side}), and a batch holds"
                f" {self.budget} (such rows: {count}); give a larger budget, or shorten the long rows or leave them out"
            )
        return cost

    def _cost(self, lengths: np.ndarray) -> np.ndarray:
        """Tokens that a row of these lengths counts for: (..., sides) to (...)."""
        if self.side in self.sides:
            return lengths[..., self.sides.index(self.side)]
        cost: np.ndarray = lengths.max(axis=-1) if self.side == LONGEST else lengths.sum(axis=-1)
        return cost

    def _layout(self, random: np.random.Generator) -> Pools:
        """Cut the rows into pools, and say how many batches each is."""
        pools: list[np.ndarray] = []
        ahead = [np.arange(len(self.lengths))]
        while ahead:
            rows = ahead.pop()
            parts = self._cut(rows, random)
            pools += [] if parts else [rows]
            ahead += parts
        first = np.cumsum([0, *(len(rows) for rows in pools)])
        batches = np.cumsum([0, *(self._batches(rows) for rows in pools)])
        return Pools(np.concatenate(pools), first, batches)

    def _cut(self, rows: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
        """The two parts of about the best cut; none where no cut saves anything and fills a batch on either side."""
        lengths = self.lengths[rows]
        least, best = np.inf, []
        for side in range(lengths.shape[1]):
            # Rows of equal lengths are in another order in each layout, and may be parted.
            order = random.permutation(len(rows))
            order = order[lengths[order, side].argsort(kind="stable")]
            ordered = lengths[order]
            # For a cut before each row but the first: what a row takes in either part, and how many batches they are.
            below = np.maximum.accumulate(ordered)[:-1]
            above = np.maximum.accumulate(ordered[::-1])[::-1][1:]
            left = np.arange(1, len(rows))
            right = left[::-1]
            most_left, most_right = self.budget // self._cost(below), self.budget // self._cost(above)
            noise = 1 + PADDING_NOISE * random.random(len(left))
            padded = (left * below.sum(axis=1) + right * above.sum(axis=1)) * noise
            score = padded + self._worth * (-(-left // most_left) - (-right // most_right))
            score[(left < self._least * most_left) | (right < self._least * most_right)] = np.inf
            if len(score) and score.min() < least:
                at = int(score.argmin())
                least, best = score[at], [rows[order[: at + 1]], rows[order[at + 1 :]]]
        uncut = len(rows) * lengths.max(axis=0).sum() + self._worth * self._batches(rows)
        return [] if least >= uncut else best

    def _batches(self, rows: np.ndarray) -> int:
        """To how many batches a pool is dealt out."""
        lengths = self.lengths[rows]
        one = float(self._cost(lengths.max(axis=0)) if self.counted == "padded" else self._cost(lengths).mean())
        return -(-len(rows) // int(self.budget / one))

    def steps(self, epochs: float) -> int:
        """The least number of steps that sees each row so often."""
        rounds, rest = divmod(epochs, LAYOUTS)
        whole, part = divmod(rest, 1)
        batches = rounds * self._begins[-1] + self._begins[int(whole)] + part * self._counts[int(whole)]
        return -int(-batches // self.accumulate)

    def rows(self, step: int, micro: int = 0) -> np.ndarray:
        """Which rows a batch holds: (rows of the batch,) int64. Steps and micro-batches count from 0."""
        rounds, place = divmod(step * self.accumulate + micro, int(self._begins[-1]))
        layout = int(np.searchsorted(self._begins, place, side="right")) - 1
        return self._batch(rounds * LAYOUTS + layout, place - int(self._begins[layout]))

    def epoch(self, number: int = 0) -> Iterator[np.ndarray]:
        """The batches of an epoch: all rows, each once."""
        return (self._batch(number, place) for place in range(self._counts[number % LAYOUTS]))

    def _batch(self, epoch: int, place: int) -> np.ndarray:
        layout = self.layouts[epoch % LAYOUTS]
        slot = int(permuted_indices(self._counts[epoch % LAYOUTS], (self.seed, epoch, 1))[place])
        pool = int(np.searchsorted(layout.batches, slot, side="right")) - 1
        (first, end), (before, after) = layout.first[pool : pool + 2], layout.batches[pool : pool + 2]
        # Even parts: none is a small remainder.
        part, parts, size = int(slot - before), int(after - before), int(end - first)
        inside = np.arange(part * size // parts, (part + 1) * size // parts)
        rows: np.ndarray = layout.order[first + Permutation(size, self.seed, epoch, 2, pool)(inside)]
        return rows

    def fill(self, epoch: int = 0) -> Fill:
        """What the batches of an epoch hold."""
        batches = [self.lengths[rows] for rows in self.epoch(epoch)]
        real = self.lengths.sum(axis=0)
        padded = np.sum([len(lengths) * lengths.max(axis=0) for lengths in batches], axis=0)
        share = {side: float(r / p) for side, r, p in zip(self.sides, real, padded, strict=True)}
        if len(self.sides) > 1:
            share["all"] = float(real.sum() / padded.sum())
        sizes = list(map(len, batches))
        return Fill(len(sizes), share, (min(sizes), sum(sizes) / len(sizes), max(sizes)))
