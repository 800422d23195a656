"""What a model reads of rows, and what it says of them: rows become batches of like lengths, and the output of each is
its own, without padding. So a prediction is the same alone and in any batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from ..data.records import Record
from ..errors import InputError
from ..generation.steps import device_of
from ..model.transformer import evaluating
from ..tokenizers.base import Tokenizer
from .base import EVALUATED_TOKENS, Batch, Progress
from .cut_rows import CutRow, is_cut, noted
from .predictor import Answer, Predictor

EncodedRow = Mapping[str, Tensor]
"""What a model reads of one row, by input: token ids (length,) int64, a picture (channels, height, width) uint8."""


def collated(rows: Sequence[EncodedRow]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Rows as a batch: inputs by name, token ids padded with zeros on the right, pixels from -1 to 1; and the real
    lengths of the inputs whose lengths differ."""
    inputs, lengths = {}, {}
    for name in rows[0]:
        tensors = [row[name] for row in rows]
        sizes = [len(each) for each in tensors]
        if tensors[0].dtype == torch.uint8:
            inputs[name] = torch.stack(tensors).float() / 127.5 - 1
            continue
        inputs[name] = padded(tensors)
        if min(sizes) < max(sizes):
            lengths[name] = torch.tensor(sizes)
    return inputs, lengths


def padded(tensors: Sequence[Tensor], filled: float = 0) -> Tensor:
    """Tensors of equally many dimensions in one, each padded at the ends of its dimensions."""
    shapes = torch.tensor([each.shape for each in tensors])
    batch = tensors[0].new_full((len(tensors), *shapes.amax(0).tolist()), filled)
    for place, each in enumerate(tensors):
        room = batch[place]
        for dimension, size in enumerate(each.shape):
            room = room.narrow(dimension, 0, size)
        room.copy_(each)
    return batch


def like_lengths(lengths: np.ndarray) -> Iterator[list[int]]:
    """The places of rows of so many positions in batches, the longest first, of at most `EVALUATED_TOKENS` padded
    positions."""
    order = np.argsort(-lengths, kind="stable").tolist()
    first = 0
    while first < len(order):
        count = max(1, EVALUATED_TOKENS // int(lengths[order[first]]))
        yield order[first : first + count]
        first += count


def parts_of(output: Tensor, batch: Mapping[str, Tensor], lengths: Mapping[str, Tensor]) -> list[Tensor]:
    """The output of each row without its padding: (length, width), or (1, width) of a pooled output."""
    real = next((each.tolist() for name, each in lengths.items() if batch[name].shape[1] == output.shape[1]), None)
    return [each[:size] for each, size in zip(output, real or [output.shape[1]] * len(output), strict=True)]


def row_outputs(
    models: Sequence[Any],
    lengths: np.ndarray,
    batch_at: Callable[[list[int]], Batch],
    progress: Progress | None = None,
    heard: Callable[[Batch, Tensor], None] | None = None,
) -> list[Tensor]:
    """The mean output of models for each row, (length or 1, width) float32, on the CPU.

    lengths   positions of each row, (rows,)
    batch_at  makes the batch of rows by their places
    heard     called with each batch and its output, both on the models' device, without gradients
    """
    outputs: list[Tensor] = [torch.empty(0)] * len(lengths)
    views, device, done = [evaluating(model) for model in models], device_of(models[0]), 0
    with torch.no_grad():
        for places in like_lengths(lengths):
            batch = batch_at(places).to(device)
            output = torch.stack([view(**batch.given).float() for view in views]).mean(0)
            if heard is not None:
                heard(batch, output)
            for place, part in zip(places, parts_of(output.cpu(), batch.inputs, batch.lengths), strict=True):
                outputs[place] = part
            done += len(places)
            if progress is not None:
                progress(done, len(lengths))
    return outputs


@dataclass(frozen=True)
class RowEncoder(Predictor):
    """What a model reads of rows, and what it makes of them.

    inputs   what the model reads, by name
    most     positions of a row at most; longer ones are cut
    lower    whether texts are lowercased
    """

    tokenizer: Tokenizer | None
    inputs: tuple[str, ...] | list[str]
    most: int
    lower: bool

    columns: ClassVar[tuple[str, ...]] = ("text",)
    """What of a row it reads: one is an input as it is, several come by name."""

    def encode(self, inputs: Sequence[Any]) -> list[EncodedRow]:
        """Inputs as the model reads them, in order: texts, unless a task says otherwise."""
        return self.joined([[ids] for ids in self.texts(inputs)])

    def lengths(self, rows: Sequence[EncodedRow]) -> np.ndarray:
        """Positions of rows, (rows,) int64: of the longest sequence of each."""
        return np.array([max(map(len, row.values())) for row in rows], dtype=np.int64)

    def input_of(self, record: Record) -> Any:
        """What of a record is the input."""
        return record[self.columns[0]] if len(self.columns) == 1 else {name: record[name] for name in self.columns}

    def outputs(
        self, models: Sequence[Any], rows: Sequence[EncodedRow], progress: Progress | None = None
    ) -> list[Tensor]:
        """The mean output of the models for each row, (length or 1, width) float32."""

        def batch_at(places: list[int]) -> Batch:
            inputs, lengths = collated([rows[place] for place in places])
            return Batch(inputs, torch.empty(0), lengths)

        return row_outputs(models, self.lengths(rows), batch_at, progress)

    def check_alike(self, other: Predictor, named: str) -> None:
        mine, theirs = self.alike(), other.alike() if isinstance(other, RowEncoder) else None
        if type(self) is not type(other) or mine != theirs:
            raise InputError(
                f"{named}: models answer together that read and say the same: the same task, tokenizer and labels;"
                " train them with one tokenizer: --tokenizer RUN/best of the first"
            )

    def alike(self) -> tuple[Any, ...]:
        """What must be the same in models that answer together."""
        return (self.tokenizer and self.tokenizer.identity, list(self.inputs), self.lower)

    def texts(self, texts: Sequence[str]) -> list[Tensor]:
        """Token ids of texts, (length,) int64 each."""
        assert self.tokenizer is not None
        return list(map(torch.from_numpy, self.tokenizer.encode_many([t.lower() if self.lower else t for t in texts])))

    def joined(self, rows: Sequence[Sequence[Tensor]]) -> list[EncodedRow]:
        """Texts as one sequence each, with the tokenizer's marks: the end of document before every text, unless it has
        others; `types` says which text a token is of. Where they are too long together, the longest is cut first."""
        assert self.tokenizer is not None
        marks_of = {count: self.tokenizer.marks.row(count) for count in set(map(len, rows))}
        encoded: list[EncodedRow] = []
        for texts in rows:
            room, marks = [len(text) for text in texts], marks_of[len(texts)]
            while sum(room) + marks.size > self.most and max(room) > 1:
                room[room.index(max(room))] -= 1
            parts = [text[:size].numpy() for text, size in zip(texts, room, strict=True)]
            ids, types = map(torch.from_numpy, marks.around(parts))
            row = (CutRow if room != list(map(len, texts)) else dict[str, Tensor])()
            row["tokens"] = ids if len(ids) else torch.zeros(1, dtype=torch.int64)
            if "types" in self.inputs:
                row["types"] = types if len(ids) else torch.zeros(1, dtype=torch.int64)
            encoded.append(row)
        return encoded


class RowPredictor(RowEncoder):
    """What a model says of rows."""

    @abstractmethod
    def answers(self, inputs: Sequence[Any], outputs: Sequence[Tensor], settings: Any) -> Sequence[Sequence[Answer]]:
        """The answers to each input, best first, from the output of each row, (length or 1, width) float32."""

    def calibrated(self, records: Sequence[Record], outputs: Sequence[Tensor]) -> Self:
        """This predictor with what it learns from outputs for validation rows, such as a threshold; itself unless
        said."""
        return self

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> Sequence[Sequence[Answer]]:
        """Several models answer by the mean of their logits."""
        rows = self.encode(inputs)
        answers = self.answers(inputs, self.outputs(models, rows, progress), settings)
        return noted(answers, is_cut(rows), self.most) if len(rows) == len(answers) else answers
