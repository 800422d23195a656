"""Order of data as a function: a keyed permutation, so that an epoch's order needs no memory and no state.

A Feistel network permutes the numbers of an even count of bits: a number is two halves, and round after round one half
is changed by a keyed hash of the other, which can always be undone. Numbers that land outside the wanted range go
through the network again (cycle walking), at most four times on average.

Source: Luby, Rackoff 1988; Black, Rogaway 2002.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

ROUNDS = 8
U64 = np.uint64


def mix(value: Any) -> Any:
    """A hash of 64 bits to 64 bits, each bit of it dependent on all (the finalizer of splitmix64)."""
    value = np.asarray(value, dtype=np.uint64)
    with np.errstate(over="ignore"):
        value = (value ^ (value >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> U64(27))) * U64(0x94D049BB133111EB)
    return value ^ (value >> U64(31))


@lru_cache(maxsize=4096)
def key(*numbers: int) -> int:
    """One key of 64 bits from several whole numbers; each counts, and so does their order."""
    state: Any = U64(0x9E3779B97F4A7C15)
    for number in numbers:
        with np.errstate(over="ignore"):
            state = mix(state + U64(0x9E3779B97F4A7C15) + mix(U64(number & 0xFFFFFFFFFFFFFFFF)))[()]
    return int(state)


class Permutation:
    """A permutation of 0 to `size - 1`, chosen by a key: `Permutation(size, seed, epoch)(indices)`. A pure function of
    (size, keys, index); memory and time do not depend on `size`."""

    def __init__(self, size: int, *keys: int) -> None:
        if size < 1:
            raise ValueError(f"a permutation of {size} things")
        self.size = size
        self._half = U64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._mask = U64((1 << int(self._half)) - 1)
        self._keys = [U64(key(*keys, r)) for r in range(ROUNDS)]

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        """Where the indices go: int64, of the same shape. Raises ValueError for an index out of range."""
        indices = np.asarray(indices)
        if indices.size and not 0 <= indices.min() <= indices.max() < self.size:
            raise ValueError(f"indices must be 0 to {self.size - 1}")
        value = self._network(indices.astype(np.uint64))
        outside = value >= U64(self.size)
        while outside.any():
            value[outside] = self._network(value[outside])
            outside = value >= U64(self.size)
        return value.astype(np.int64)

    def _network(self, value: np.ndarray) -> np.ndarray:
        left, right = value >> self._half, value & self._mask
        for round_key in self._keys:
            left, right = right, left ^ (mix(right ^ round_key) & self._mask)
        return (left << self._half) | right


@lru_cache(maxsize=8)
def permuted(size: int, keys: tuple[int, ...], first: int = 0, end: int | None = None) -> np.ndarray:
    """Where `Permutation(size, *keys)` puts the indices `first` to `end` - 1, or all; kept for the next call."""
    order = Permutation(size, *keys)(np.arange(first, size if end is None else min(end, size)))
    order.flags.writeable = False  # it is shared by all that ask for it
    return order
