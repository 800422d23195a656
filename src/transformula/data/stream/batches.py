"""Batches of a stream, exact at every stop, whatever reads them.

Each source has a fixed number of readers. In an epoch, reader i of R reads the shards i, i + R, i + 2 R, ... of an
order that (seed, epoch) keys, document after document, or with the rows of each block of a shard in an order that
(seed, epoch, shard, block) keys; its place is four numbers: epoch, turn, row and token of the document there. Row r of
a batch is the next window of reader r mod R of a source that (seed, step, r) keys, by the sources' weights. So a batch
is a function of (seed, step), and the places of all readers before a step are all that it takes to go on there: a
checkpoint holds them, and without them the steps before are read again, with the same result. Neither the number of
processes nor that of threads is part of any of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from ...errors import CheckpointError, ConfigError, DataError
from ...tokenizers.base import Tokenizer
from ..windows import WindowOrder, key, mix, permuted_indices
from .documents import StreamText

AHEAD = 3  # steps that are made while others train
ORDER, CHOICE, ROWS = 101, 102, 103  # what keys of chance are for


class Reader:
    """The training tokens of a reader's share of the shards, epoch after epoch, from any place on."""

    def __init__(self, text: StreamText, tokenizer: Tokenizer, number: int, of: int, seed: int) -> None:
        self.text, self.tokenizer, self.number, self.of, self.seed = text, tokenizer, number, of, seed
        self.go(np.zeros(4, np.int64))

    def go(self, place: np.ndarray) -> None:
        """Read on from a place: (epoch, turn, row, token)."""
        epoch, turn, row, token = map(int, place)
        self._documents = self._from(epoch, turn, row)
        self._ahead: list[tuple[tuple[int, int, int], np.ndarray]] = []
        self.place, self._token = (epoch, turn, row), token

    def _from(self, epoch: int, turn: int, row: int) -> Iterator[tuple[tuple[int, int, int], np.ndarray]]:
        names, empty = self.text.source.names, set[int]()
        while True:
            shards = permuted_indices(len(names), (self.seed, ORDER, epoch))[self.number :: self.of]
            while turn < len(shards):
                if row == 0:
                    empty.add(int(shards[turn]))
                keys = (self.seed, ROWS, epoch, int(shards[turn]))
                for at, ids in self.text.tokens(self.tokenizer, names[shards[turn]], row, keys):
                    empty.clear()
                    yield (epoch, turn, at), ids
                turn, row = turn + 1, 0
            if len(empty) == len(names):  # each epoch has other shards: in the end a reader has met all
                reasons = next(iter(self.text.bad.values()), "all are empty")
                raise DataError(f"has no documents to train on: {reasons}", path=self.text.source.name)
            epoch, turn = epoch + 1, 0

    def window(self, size: int) -> np.ndarray:
        """The next `size` tokens; the last of them is the first of the next window."""
        while sum(len(ids) for _, ids in self._ahead) < self._token + size:
            self._ahead.append(next(self._documents))
        ids = np.concatenate([ids for _, ids in self._ahead])[self._token : self._token + size]
        self._token += size - 1
        while self._token >= len(self._ahead[0][1]):
            self._token -= len(self._ahead.pop(0)[1])
        self.place = self._ahead[0][0]
        return ids

    @property
    def state(self) -> tuple[int, int, int, int]:
        return (*self.place, self._token)


class StreamedWindows(WindowOrder):
    """Windows of a mixture of streams.

    texts    the sources, and `weights`, of the tokens that come from each
    places   of all readers before some steps, (readers, 4): those that a checkpoint holds
    """

    def __init__(
        self, texts: Sequence[StreamText], weights: Sequence[float], tokenizer: Tokenizer, context: int, batch: int,
        accumulate: int = 1, seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(context, batch, accumulate, seed)
        self.texts, self.readers = texts, []
        for number, text in enumerate(texts):
            count = min(len(text.source.names), batch * accumulate, text.source.readers)
            self.readers.append([Reader(text, tokenizer, i, count, key(seed, number)) for i in range(count)])
        self._bounds = np.cumsum(weights) / sum(weights)
        self.places: dict[int, np.ndarray] = {0: self._state()}
        self._made: dict[int, Future[np.ndarray]] = {}
        self._next, self._last = 0, (-1, np.zeros(0))
        self._thread = ThreadPoolExecutor(1, "data")
        self._told: set[str] = set()
        self._news: dict[int, list[str]] = {}  # by the step that met them

    def steps(self, epochs: float) -> int:
        what = "a stream's length is not known before it was read"
        raise ConfigError(f"epochs: {what}; give --steps, --tokens or --minutes")

    def at(self, step: int, micro: int = 0) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(self.step(step)[micro * self.batch : (micro + 1) * self.batch])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step(self, step: int) -> np.ndarray:
        """All rows of a step, (rows, context + 1) int64; those of the steps after it are made meanwhile."""
        if self._last[0] != step:
            if step not in self._made:
                self._seek(step)
            while self._next <= step + AHEAD:
                self._made[self._next] = self._thread.submit(self._make, self._next)
                self._next += 1
            self._last = step, self._made[step].result()
            self._made = {number: future for number, future in self._made.items() if number > step}
            for number in [number for number in list(self.places) if 0 < number < step]:
                del self.places[number]
        return self._last[1]

    def _seek(self, step: int) -> None:
        for future in self._made.values():
            future.cancel()
        self._thread.submit(int).result()  # what was begun has ended
        self._made, before = {}, max(number for number in self.places if number <= step)
        state = self.places[before]
        for reader, place in zip((reader for group in self.readers for reader in group), state, strict=True):
            reader.go(place)
        for number in range(before, step):
            self._make(number)
        self._next = step

    def _make(self, step: int) -> np.ndarray:
        if step not in self.places:
            raise RuntimeError(f"step {step - 1} was not made to its end")  # its own error was given out
        rows = np.empty((self.rows, self.context + 1), np.int64)
        for row, source in enumerate(self.sources(step)):
            readers = self.readers[source]
            rows[row] = readers[row % len(readers)].window(self.context + 1)
        self.places[step + 1] = self._state()
        for text in self.texts:
            for shard, reason in text.bad.items():
                if shard not in self._told:
                    self._told.add(shard)
                    self._news.setdefault(step, []).append(f"bad shard {len(self._told):,}, left out: {reason}")
        return rows

    def news(self, step: int) -> list[str]:
        """The bad shards that a step was the first to meet, each given out once."""
        return self._news.pop(step, [])

    def sources(self, step: int) -> np.ndarray:
        """Which source each row of a step is of: (rows,)."""
        index = np.arange(step * self.rows, (step + 1) * self.rows, dtype=np.uint64)
        chance = mix(index ^ np.uint64(key(self.seed, CHOICE))).astype(np.float64) / 2**64
        return np.asarray(np.minimum(np.searchsorted(self._bounds, chance, "right"), len(self._bounds) - 1))

    def _state(self) -> np.ndarray:
        return np.array([reader.state for group in self.readers for reader in group], dtype=np.int64)

    # What a checkpoint holds.

    def tensors(self) -> dict[str, Tensor]:
        """The places before the last step that was asked for, and before the next one."""
        step = max(self._last[0], 0)
        known = {number: self.places[number] for number in (step, step + 1) if number in self.places}
        return {f"stream.{number}": torch.from_numpy(place.copy()) for number, place in known.items()}

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave. Raises CheckpointError where it is of another number of readers."""
        self._seek(0)
        self._last = (-1, np.zeros(0))
        for name, tensor in tensors.items():
            if tuple(tensor.shape) != self.places[0].shape:
                raise CheckpointError(
                    f"the checkpoint holds the places of {len(tensor)} readers, and this run has {len(self.places[0])}:"
                    " the data, or the rows of a step, are not those that it began with"
                )
            self.places[int(name.removeprefix("stream."))] = tensor.numpy().astype(np.int64)

    def skip(self, step: int) -> None:
        """Nothing is left to do where a step is left out: its tokens are read, too."""
