"""Rows with a source and a target as token ids with their ends, and as the batches that a model is called with.

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
class EncodedRows:
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
    ) -> EncodedRows:
        """Records, encoded, and cut to so many tokens, the end included."""
        sources = None
        if writing.source is not None:
            texts = writing.spelling.texts(records, "source")
            sources = Encoded.of_texts(texts, writing.source, end_of(writing.source), source)
        texts = writing.spelling.texts(records, "target")
        return cls(records, sources, Encoded.of_texts(texts, writing.target, writing.end, target), writing)

    def part(self, rows: np.ndarray) -> EncodedRows:
        """Some of the rows."""
        sources = None if self.sources is None else Encoded([self.sources[row] for row in rows])
        targets = Encoded([self.targets[row] for row in rows])
        return EncodedRows([self.records[row] for row in rows], sources, targets, self.writing)

    @property
    def lengths(self) -> dict[str, np.ndarray]:
        """Tokens of each row, (rows,) a side."""
        sources = {} if self.sources is None else {"source": self.sources.lengths}
        return {**sources, "target": self.targets.lengths}

    @property
    def read(self) -> dict[str, np.ndarray]:
        """Positions of each row in what the model reads, (rows,) a sequence: one, `source`, for a decoder alone."""
        lengths = self.lengths
        if self.writing.input == "tokens":
            return {"source": lengths["source"] + lengths["target"]}
        return lengths

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
            predicted = padded([text[1:] for text in whole], IGNORED)
            for place, row in enumerate(rows):
                predicted[place, : len(self.sources[row]) - 1] = IGNORED
            tokens = [text[:-1] for text in whole]
            return Batch({"tokens": padded(tokens)}, predicted, real_lengths({"tokens": tokens}))
        if self.sources is not None:
            return encoder_decoder_batch([self.sources[row] for row in rows], targets, self.writing.end)
        images = torch.stack(self.writing.pictures([self.records[row]["source"] for row in rows]))
        tokens = [np.append(self.writing.end, target[:-1]) for target in targets]
        inputs = {"image": images, "tokens": padded(tokens)}
        return Batch(inputs, padded(targets, IGNORED), real_lengths({"tokens": tokens}))


def encoder_decoder_batch(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], end: int) -> Batch:
    """Sources and targets, each with its end, for an encoder and a decoder, whose text begins with the end."""
    tokens = [np.append(end, target[:-1]) for target in targets]
    inputs = {"source": padded(sources), "tokens": padded(tokens)}
    return Batch(inputs, padded(targets, IGNORED), real_lengths({"source": sources, "tokens": tokens}))


def real_lengths(rows: Mapping[str, Sequence[np.ndarray]]) -> dict[str, Tensor]:
    """Real positions by input, where rows differ."""
    sizes = {name: [len(row) for row in sequences] for name, sequences in rows.items()}
    return {name: torch.tensor(each) for name, each in sizes.items() if min(each) < max(each)}
