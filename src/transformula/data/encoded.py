"""Texts as token ids, kept in one array: a few bytes a token, and rows of it as padded batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..tokenizers.base import Tokenizer

GROUP = 100_000  # texts that are encoded at a time


class Encoded:
    """Rows of token ids.

    ids      (tokens,) int32, row after row
    lengths  (rows,) int64, tokens of each
    first    (rows + 1,) where each begins, and the end
    """

    def __init__(self, rows: Sequence[np.ndarray], lengths: Sequence[np.ndarray] | None = None) -> None:
        """`lengths` where each array holds several rows: of these."""
        lengths = [np.array(list(map(len, rows)), dtype=np.int64)] if lengths is None else lengths
        self.ids = np.concatenate([np.zeros(0, np.int32), *(np.asarray(row, dtype=np.int32) for row in rows)])
        self.lengths = np.concatenate([np.zeros(0, np.int64), *lengths])
        self.first = np.concatenate([[0], np.cumsum(self.lengths)])

    @classmethod
    def of_texts(
        cls, texts: Sequence[str], tokenizer: Tokenizer, end: int | Sequence[int], most: int | None = None,
        before: Sequence[int] = (),
    ) -> Encoded:  # fmt: skip
        """Texts by their tokenizer, each between the tokens `before` and `end`, and cut to `most` tokens with these."""
        after = (end,) if isinstance(end, int) else end
        groups = (tokenizer.encode_joined(texts[start : start + GROUP]) for start in range(0, len(texts), GROUP))
        parts = [add_marks(ids, lengths, before, after, most) for ids, lengths in groups]
        return cls([ids for ids, _ in parts], [lengths for _, lengths in parts])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        ids: np.ndarray = self.ids[self.first[row] : self.first[row + 1]]
        return ids

    @property
    def identity(self) -> str:
        """A hash of all ids and of where the rows begin."""
        digest = hashlib.sha256(self.ids.data)
        digest.update(self.first.data)
        return digest.hexdigest()[:32]


def add_marks(
    ids: np.ndarray, lengths: np.ndarray, before: Sequence[int], after: Sequence[int], most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that follow each other, each between the tokens `before` and `after`, cut to `most` with these; and the
    lengths."""
    added = len(before) + len(after)
    if most is not None:
        place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ids = ids[place < most - added]
        lengths = np.minimum(lengths, most - added)
    lengths = lengths + added
    ends = np.cumsum(lengths)
    whole = np.empty(lengths.sum(), dtype=np.int32)
    inside = np.ones(len(whole), dtype=bool)
    places = [ends - lengths + n for n in range(len(before))] + [ends - len(after) + n for n in range(len(after))]
    for at, token in zip(places, (*before, *after), strict=True):
        whole[at], inside[at] = token, False
    whole[inside] = ids
    return whole, lengths


def pad_rows(rows: Sequence[np.ndarray], filled: int = 0) -> Tensor:
    """(rows, longest) int64, padded on the right."""
    batch = np.full((len(rows), max(map(len, rows))), filled, dtype=np.int64)
    for place, row in enumerate(rows):
        batch[place, : len(row)] = row
    return torch.from_numpy(batch)
