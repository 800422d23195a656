"""Prompt prefixes that were read before: their states are kept, so that no prompt is read twice from its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..engine.kinds import LARGEST
from ..model.segment_memory import tensors_of

SHORTEST = 32  # tokens of a prefix that is worth keeping


class PrefixSource(NamedTuple):
    """A row of a decoding that has read some tokens that begin a prompt, and how many of those it can go on from."""

    decoding: Any
    row: int
    length: int


@dataclass(eq=False)
class KeptPrefix:
    """A text of which a decoding of one row has read all."""

    tokens: np.ndarray
    decoding: Any
    size: int


class PrefixCache:
    """States of texts that were read, of at most so many bytes in all; those that were not used for longest leave.

    hits    tokens of prompts that were not read again
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes, self.hits = most_bytes, 0, 0
        self.too_long = LARGEST if most_bytes else 0  # tokens of a text that there is no room for
        self.kept: list[KeptPrefix] = []  # the one that was used last is the last

    def keep(self, model: Any, tokens: Sequence[int], decoding: Any, row: int) -> None:
        """Keep a copy of a row that has read these tokens, if there is room for it. A kept text that begins another
        which can be cut to it leaves. Of a row that has read more, the rest is dropped, if it can be."""
        size = decoding.sizes[row]
        if not SHORTEST <= len(tokens) < self.too_long or (size > len(tokens) and size > decoding.rewindable):
            return
        now = np.array(tokens, dtype=np.int64)
        one = model.start(1, decoding.sizes[row])
        one.put([0], decoding, [row], [len(tokens)])
        cuts = one.rewindable >= len(tokens)
        for other in [each for each in self.kept if common(each.tokens, now) == len(each.tokens)]:
            if cuts or len(other.tokens) == len(now):
                self._remove(other)
        size = sum(tensor.numel() * tensor.element_size() for _, tensor in tensors_of(one.states))
        if size > self.most_bytes:
            self.too_long = len(tokens)
            return
        self.kept.append(KeptPrefix(now, one, size))
        self.bytes += size
        while self.bytes > self.most_bytes:
            self._remove(self.kept[0])

    def _remove(self, one: KeptPrefix) -> None:
        self.kept.remove(one)
        self.bytes -= one.size

    def find(
        self, tokens: np.ndarray, running: Iterable[tuple[np.ndarray, Any, int]] = ()
    ) -> tuple[PrefixSource | None, int]:
        """The row from which a prompt can go on that has read most of its tokens, all but the last at most; and how
        many tokens of it any text began with, also one that cannot be cut there.

        running  (tokens, decoding, row) of rows that are still written
        """
        best: PrefixSource | None = None
        owner: KeptPrefix | None = None
        overlap = 0
        every = [*((each.tokens, each.decoding, 0, each) for each in self.kept), *((*row, None) for row in running)]
        for known, decoding, row, kept in every:
            count = min(common(known, tokens), len(tokens) - 1)
            overlap = max(overlap, count)
            usable = count == len(known) or decoding.rewindable >= len(known)
            if usable and count >= SHORTEST and (best is None or count > best.length):
                best, owner = PrefixSource(decoding, row, count), kept
        if owner is not None:
            self.kept.remove(owner)
            self.kept.append(owner)
        return best, overlap


def common(one: np.ndarray, two: np.ndarray) -> int:
    """How many tokens two texts begin with alike."""
    count = min(len(one), len(two))
    differ = np.flatnonzero(one[:count] != two[:count])
    return int(differ[0]) if len(differ) else count
