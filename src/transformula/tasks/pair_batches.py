"""Rows of pairs as token ids with their ends, and as the batches that a model is called with.

encoder and decoder   source, end  ->  target, end, where the decoder reads end, target
decoder alone         source, end, target, end as one text, of which the target and its end are learned
pictures              as an encoder and a decoder, the picture in the source's place
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..data.buckets import BOTH, LONGEST, Buckets
from ..data.encoded import Encoded, padded
from ..data.record import Record
from ..data.settings import BatchSettings
from ..errors import ConfigError
from .base import Batch
from .label_smoothing import IGNORED
from .writing import Writing, end_of


@dataclass(frozen=True)
class Side:
    """A split, encoded: sources (none for pictures) and targets with their ends, and its records."""

    records: Sequence[Record]
    sources: Encoded | None
    targets: Encoded
    writing: Writing

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def of(
        cls, records: Sequence[Record], writing: Writing, source: int | None = None, target: int | None = None
    ) -> Side:
        """Records, encoded, and cut to so many tokens, the end included."""
        sources = None
        if writing.source is not None:
            texts = writing.spelling.texts(records, "source")
            sources = Encoded.of_texts(texts, writing.source, end_of(writing.source), source)
        texts = writing.spelling.texts(records, "target")
        return cls(records, sources, Encoded.of_texts(texts, writing.target, writing.end, target), writing)

    def part(self, rows: np.ndarray) -> Side:
        """Some of the rows."""
        sources = None if self.sources is None else Encoded([self.sources[row] for row in rows])
        targets = Encoded([self.targets[row] for row in rows])
        return Side([self.records[row] for row in rows], sources, targets, self.writing)

    @property
    def lengths(self) -> dict[str, np.ndarray]:
        """Tokens of each row, (rows,) a side."""
        found = {} if self.sources is None else {"source": self.sources.lengths}
        return {**found, "target": self.targets.lengths}

    @property
    def read(self) -> dict[str, np.ndarray]:
        """Positions of each row in what the model reads, (rows,) a sequence: one, `source`, for a decoder alone."""
        lengths = self.lengths
        if self.writing.input == "tokens":
            return {"source": lengths["source"] + lengths["target"]}
        return lengths

    @property
    def longest(self) -> int:
        """The most positions of any sequence."""
        return max(int(each.max()) for each in self.read.values())

    def buckets(self, settings: BatchSettings, accumulate: int, seed: int, name: str, least: int = 0) -> Buckets:
        """Batches of rows of like lengths, as the settings say, of `least` tokens at least.

        Raises ConfigError for a side that a batch of these has not.
        """
        read, side = self.read, settings.batch_side
        if side not in (*read, LONGEST, BOTH) or (side == "source" and self.writing.input == "tokens"):
            raise ConfigError(
                f"batch_side: {side!r} is no sequence of its own here; say longest, or one of: {', '.join(read)}"
                if self.writing.input != "tokens"
                else f"batch_side: a decoder alone reads {side} and all else as one text; say longest or all"
            )
        return Buckets(read, max(settings.batch_tokens, least), side, settings.batch_counted, accumulate, seed, name)

    def batch(self, rows: np.ndarray) -> Batch:
        """Rows as tensors: what the model reads, and the target one further."""
        targets = [self.targets[row] for row in rows]
        if self.writing.input == "tokens":
            assert self.sources is not None
            whole = [np.concatenate([self.sources[row], t]) for row, t in zip(rows, targets, strict=True)]
            asked = padded([one[1:] for one in whole], IGNORED)
            for place, row in enumerate(rows):
                asked[place, : len(self.sources[row]) - 1] = IGNORED
            tokens = [one[:-1] for one in whole]
            return Batch({"tokens": padded(tokens)}, asked, real_lengths({"tokens": tokens}))
        tokens = [np.concatenate([[self.writing.end], one[:-1]]) for one in targets]
        asked = padded(targets, IGNORED)
        if self.sources is None:
            images = torch.stack(self.writing.pictures([self.records[row]["source"] for row in rows]))
            return Batch({"image": images, "tokens": padded(tokens)}, asked, real_lengths({"tokens": tokens}))
        sources = [self.sources[row] for row in rows]
        given = {"source": padded(sources), "tokens": padded(tokens)}
        return Batch(given, asked, real_lengths({"source": sources, "tokens": tokens}))


def real_lengths(rows: Mapping[str, Sequence[np.ndarray]]) -> dict[str, Tensor]:
    """Real positions by input, where rows differ."""
    found = {}
    for name, each in rows.items():
        sizes = [len(row) for row in each]
        if min(sizes) < max(sizes):
            found[name] = torch.tensor(sizes)
    return found
