"""Texts as token ids, kept in one array: a few bytes a token, and rows of it as padded batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..tokenizers.base import Tokenizer

GROUP = 100_000
"""Texts that are encoded at a time."""


class Encoded:
    """Rows of token ids.

    ids     (tokens,) int32, row after row
    first   (rows + 1,) where each begins, and the end
    """

    def __init__(self, rows: Sequence[np.ndarray]) -> None:
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self.first = np.concatenate([[0], np.cumsum(self.lengths)])
        self.ids = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows] or [np.zeros(0, np.int32)])

    @classmethod
    def of_texts(cls, texts: Sequence[str], tokenizer: Tokenizer, end: int, most: int | None = None) -> Encoded:
        """Texts by their tokenizer, each with the token `end`, and cut to `most` tokens with it."""
        rows, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for start in range(0, len(texts), GROUP):
            ids, sizes = _ended(*tokenizer.encode_joined(texts[start : start + GROUP]), end, most)
            rows.append(ids)
            lengths.append(sizes)
        return cls._joined(np.concatenate(rows), np.concatenate(lengths))

    @classmethod
    def _joined(cls, ids: np.ndarray, lengths: np.ndarray) -> Encoded:
        made = cls(())
        made.ids, made.lengths = ids, lengths
        made.first = np.concatenate([[0], np.cumsum(lengths)])
        return made

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


def _ended(ids: np.ndarray, lengths: np.ndarray, end: int, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows that follow each other, each cut to `most` - 1 tokens and followed by `end`; and their lengths."""
    if most is not None:
        kept = np.minimum(lengths, most - 1)
        place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ids, lengths = ids[place < np.repeat(kept, lengths)], kept
    whole = np.full(len(ids) + len(lengths), end, dtype=np.int32)
    inside = np.ones(len(whole), dtype=bool)
    inside[np.cumsum(lengths + 1) - 1] = False
    whole[inside] = ids
    return whole, lengths + 1


def padded(rows: Sequence[np.ndarray], filled: int = 0) -> Tensor:
    """(rows, longest) int64, padded on the right."""
    made = np.full((len(rows), max(map(len, rows))), filled, dtype=np.int64)
    for place, row in enumerate(rows):
        made[place, : len(row)] = row
    return torch.from_numpy(made)
