"""Rows of a batch that stand over one and the same other sequence, as the hypotheses of a sentence do over its source.

Keys and values of the source are then kept once for a sentence; the queries of its hypotheses look at them together,
like so many positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class SharedSequences:
    """Which sequence each row stands over.

    count   how many sequences there are
    most    how many rows the one that has most has
    of_row  (batch,), whole: the sequence of each row; sequences are numbered as they first come
    first   (count,), whole: the first row of each
    """

    def __init__(self, of_row: Sequence[int], device: torch.device) -> None:
        rows: dict[int, list[int]] = {}
        for row, sequence in enumerate(of_row):
            rows.setdefault(sequence, []).append(row)
        self.count, self.most = len(rows), max(map(len, rows.values()))
        self.of_row = torch.tensor(of_row, device=device)
        self.first = torch.tensor([of_one[0] for of_one in rows.values()], device=device)
        self._places: Tensor | None = None
        self._slots: Tensor | None = None
        if list(of_row) != sorted(of_row) or self.count * self.most != len(of_row):
            # a sequence with fewer rows has its first again in their place; what that finds is dropped
            places = [row for of_one in rows.values() for row in of_one + of_one[:1] * (self.most - len(of_one))]
            slots = [sequence * self.most + rows[sequence].index(row) for row, sequence in enumerate(of_row)]
            self._places, self._slots = torch.tensor(places, device=device), torch.tensor(slots, device=device)

    def gather(self, x: Tensor) -> Tensor:
        """(batch, heads, length, size) to (count, heads, most * length, size)."""
        if self._places is not None:
            x = x[self._places]
        _, heads, length, size = x.shape
        return x.view(self.count, self.most, heads, length, size).transpose(1, 2).flatten(2, 3)

    def scatter(self, x: Tensor) -> Tensor:
        """What `gather` was given: (count, heads, most * length, size) to (batch, heads, length, size)."""
        _, heads, positions, size = x.shape
        split = x.view(self.count, heads, self.most, positions // self.most, size)
        rows = split.transpose(1, 2).flatten(0, 1)
        return rows if self._slots is None else rows[self._slots]
