"""Texts as token ids, kept in one array: a few bytes a token, and rows of it as padded batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class Encoded:
    """Rows of token ids.

    ids     (tokens,) int32, row after row
    first   (rows + 1,) where each begins, and the end
    """

    def __init__(self, rows: Sequence[np.ndarray]) -> None:
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self.first = np.concatenate([[0], np.cumsum(self.lengths)])
        self.ids = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows] or [np.zeros(0, np.int32)])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        found: np.ndarray = self.ids[self.first[row] : self.first[row + 1]]
        return found

    @property
    def identity(self) -> str:
        """A hash of all ids and of where the rows begin."""
        digest = hashlib.sha256(self.ids.tobytes())
        digest.update(self.first.tobytes())
        return digest.hexdigest()[:32]


def padded(rows: Sequence[np.ndarray], filled: int = 0) -> Tensor:
    """(rows, longest) int64, padded on the right."""
    made = np.full((len(rows), max(map(len, rows))), filled, dtype=np.int64)
    for place, row in enumerate(rows):
        made[place, : len(row)] = row
    return torch.from_numpy(made)
