"""The documents of a source of shards: which of them train, which validate, and what is done with a shard that is bad.

The validation set is held out by a hash of the document alone, as of data that fits in memory: of the first documents
in the order of the shards those whose hash, as a fraction of 2^64, is below `share`, until they are `HELD_OUT` bytes.
Only these are held out, and every copy of them anywhere; all others train. So it depends neither on the seed nor on how
the data is read, and little is read to find it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ...errors import DataError, setting
from ...tokenizers.base import Tokenizer
from ...tokenizers.texts import Texts, groups
from ..splits import turned
from ..windows import Permutation
from .shards import ShardSource

HELD_OUT = 4 << 20  # bytes of the validation set, at most by one document more
SAMPLE = 16 << 20  # bytes of the first documents that a tokenizer is trained on
GROUP = 1 << 16  # characters that are encoded together


def short_digest(text: str) -> int:
    """A hash of a document, of 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")


@dataclass
class StreamText:
    """Training documents of a source.

    skip      bad shards are left out, and counted, instead of ending the run
    shuffle   rows that are put in an order of a key's together; 1: none
    held_out  hashes of the documents that do not train
    bad       what is wrong with each bad shard that was met
    """

    source: ShardSource
    skip: bool = False
    shuffle: int = 1
    held_out: frozenset[int] = frozenset()
    bad: dict[str, str] = field(default_factory=dict)

    def all_documents(self, shard: str, start: int = 0) -> Iterator[tuple[int, str]]:
        """(number of the row, text) of a shard, those that are held out too. Of a bad shard those before the bad place,
        or DataError that names it and says how to go on without."""
        try:
            yield from self.source.documents(shard, start)
        except DataError as error:
            if not self.skip:
                text = str(error)
                how = f"or leave bad shards out with {setting('bad_shards', 'skip')}"
                raise DataError(f"{text}{'' if text.endswith('?') else ';'} {how}") from None
            self.bad.setdefault(shard, str(error))

    def documents(self, shard: str, start: int = 0) -> Iterator[tuple[int, str]]:
        """The same of those that train."""
        for number, text in self.all_documents(shard, start):
            if not self.held_out or short_digest(text) not in self.held_out:
                yield number, text

    def shuffled(self, shard: str, start: int, keys: tuple[int, ...]) -> Iterator[tuple[int, str]]:
        """(place, text) of documents from a place on, where rows are put in another order within blocks of `shuffle`:
        row n of a block gets the place that a permutation by the keys and the block's number gives to n."""
        if self.shuffle == 1:
            yield from self.documents(shard, start)
            return
        rows = self.documents(shard, start // self.shuffle * self.shuffle)
        for block, group in groupby(rows, key=lambda row: row[0] // self.shuffle):
            numbers, texts = zip(*group, strict=True)
            first = block * self.shuffle
            places = first + Permutation(self.shuffle, *keys, block)(np.array(numbers) - first)
            for at in np.argsort(places):
                if places[at] >= start:
                    yield int(places[at]), texts[at]

    def tokens(
        self, tokenizer: Tokenizer, shard: str, start: int = 0, keys: tuple[int, ...] = ()
    ) -> Iterator[tuple[int, np.ndarray]]:
        """(place, ids) of documents in the order of `shuffled`: `start` that place, and the same documents follow. Each
        ends with the tokenizer's marks, and the first of a shard begins with its opening ones: its place is given as
        0."""
        first, opening, between = start == 0, tokenizer.marks.opening, np.array(tokenizer.marks.between, np.int64)
        rows: list[int] = []

        def texts() -> Iterator[str]:
            for number, text in self.shuffled(shard, start, keys):
                rows.append(number)
                yield text

        given = 0
        for group in groups(texts(), GROUP):
            for ids in tokenizer.encode_many(group):
                before = np.array(opening if first else (), np.int64)
                yield (0 if first else rows[given]), np.concatenate([before, ids, between])
                first, given = False, given + 1
            del rows[:given]
            given = 0


def hold_out(texts: Sequence[StreamText], share: float, fold: int = 0, most: int = HELD_OUT) -> list[str]:
    """The validation documents of several sources, those of a fold, and each of these from then on without them. Raises
    DataError where there are none, or no others."""
    held: list[str] = []
    for text in texts:
        size, limit = 0, int(share * 2**64)
        others = False
        for document in first_documents(text):
            if turned([short_digest(document)], share, fold)[0] < limit:
                held.append(document)
                size += len(document.encode())
            else:
                others = True
            if size >= most / len(texts) and others:
                break
        if not others:
            raise DataError("has no documents to train on", path=text.source.name)
    if not held:
        raise DataError(
            f"of its documents none is held out for validation; name validation data, or hold out more with"
            f" {setting('split', '0.3')}",
            path=", ".join(text.source.name for text in texts),
        )
    digests = frozenset(map(short_digest, held))
    for text in texts:
        text.held_out = digests
    return held


def first_documents(text: StreamText, most: float = float("inf")) -> Iterator[str]:
    """The documents in the order of the shards, those that are held out too, to about `most` bytes."""
    size = 0
    for shard in text.source.names:
        for _, document in text.all_documents(shard):
            yield document
            size += len(document.encode())
            if size >= most:
                return


def sample_of_text(texts: Sequence[StreamText], most: int = SAMPLE) -> Texts:
    """The first training documents of the sources."""
    return Texts.of(
        document
        for text in texts
        for document in first_documents(text, most / len(texts))
        if short_digest(document) not in text.held_out
    )
