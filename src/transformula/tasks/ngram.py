"""The baseline of language models: interpolated Kneser-Ney n-grams over bytes.

The probability of byte w after the n-1 bytes h; h' is h without its first byte:

    P(w | h) = max(c(hw) - D, 0) / c(h.) + g(h) P'(w | h')        g(h) = what the discounts took, over c(h.)

c counts occurrences at the highest order; below it, in how many contexts hw occurs (its *continuations*): a byte that
follows much only in one place is not likely elsewhere. The discount D depends on the count (1, 2, 3 and more) and is
estimated from the counts of counts. Below order 1 stands the uniform distribution over 256 bytes.

An n-gram of up to 6 bytes is one number of 48 bits, so that counting is sorting.

Source: Kneser, Ney 1995; Chen, Goodman 1998 (modified, interpolated).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.cache import ABOUT, cached_entry
from ..data.lines import lines_of
from ..errors import DataError
from ..structured import load_json
from ..tokenizers.texts import Content, Texts, digest_of

ORDERS = (3, 4, 5, 6)
MAX_ORDER = 6

MAX_COUNTED_BYTES = 32_000_000  # the first of the training text. To count more would take gigabytes
PART_BYTES = 1_000_000  # bytes whose grams are looked at together: of each there are some tens of bytes meanwhile
MERGED_AT_ONCE, SAMPLED = 1_000_000, 100  # grams of all parts that are merged together, about, as one in so many shows


class Level:
    """One order of one kind of counts: `grams` (types,) uint64, sorted, and how often each occurs.

    taken     (types,) count - discount
    contexts  (contexts,) uint64, sorted; total: (contexts,) sum of counts; back: (contexts,) weight of the order below
    """

    def __init__(self, grams: np.ndarray, counts: np.ndarray) -> None:
        starts = _starts(grams >> np.uint64(8))
        discounts = _discounts(counts)[np.minimum(counts, 3)]
        self.grams, self.taken = grams, counts - discounts
        self.contexts = grams[starts] >> np.uint64(8)
        self.total = np.add.reduceat(counts, starts).astype(np.float64)
        self.back = np.add.reduceat(discounts, starts) / self.total

    def interpolated(self, grams: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """P of each gram, given the lower order's P of its end."""
        contexts = grams >> np.uint64(8)
        at, known = _find(self.contexts, contexts)
        place, seen = _find(self.grams, grams)
        own = np.where(seen, self.taken[place], 0.0) / self.total[at]
        return np.where(known, own + self.back[at] * lower, lower)


def _find(table: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of keys in a sorted table, and whether they are there."""
    at = np.minimum(np.searchsorted(table, keys), len(table) - 1)
    return at, table[at] == keys


def _discounts(counts: np.ndarray) -> np.ndarray:
    """D by count 0, 1, 2, 3 and more: k - (k+1) Y n[k+1] / n[k] with Y = n1 / (n1 + 2 n2), kept within [0, k]. Where
    the counts of counts do not allow the estimate (small or artificial texts): 0.5 of each."""
    n = np.bincount(np.minimum(counts, 5), minlength=6).astype(float)
    result = np.array([0.0, 0.5, 0.5, 0.5])
    if n[1] and n[2]:
        ratio = n[1] / (n[1] + 2 * n[2])
        for k in (1, 2, 3):
            if n[k]:
                result[k] = min(max(k - (k + 1) * ratio * n[k + 1] / n[k], 0.05), k - 0.05)
    return result


class KneserNey:
    """N-grams of orders 1 to 6 of one text of bytes.

    text  the bytes it is made of; at the beginning, zero bytes are taken to stand before it
    """

    def __init__(self, text: bytes) -> None:
        types, counts = _counted(text[:MAX_COUNTED_BYTES])
        self._highest: dict[int, Level] = {}
        self._lower: dict[int, Level] = {}
        for order in range(MAX_ORDER, 0, -1):
            self._highest[order] = Level(types, counts)
            # The types of the order below are the ends of these; each type is one continuation of its end, and an
            # occurrence of a type is an occurrence of its end.
            types, counts, continuations = _merged(types & _mask(order - 1), counts)
            if order > 1:
                self._lower[order - 1] = Level(types, continuations)

    def probabilities(self, grams: np.ndarray, orders: Sequence[int] = ORDERS) -> dict[int, np.ndarray]:
        """P of the last byte of each gram (a number of 48 bits, its last 6 bytes) under each order: {order: (grams,)}.
        Of all 256 last bytes after the same context they sum to 1."""
        result = {}
        lower = np.full(len(grams), 1 / 256)
        for order in range(1, max(orders) + 1):
            ends = grams & _mask(order)
            if order in orders:
                result[order] = self._highest[order].interpolated(ends, lower)
            if order < max(orders):
                lower = self._lower[order].interpolated(ends, lower)
        return result

    def nats(self, text: bytes, orders: Sequence[int] = ORDERS) -> Mapping[int, float]:
        """-log P of a whole text under each order: its bytes are predicted one after the other."""
        sums = dict.fromkeys(orders, 0.0)
        for grams in parts_of(text):
            for order, probabilities in self.probabilities(grams, orders).items():
                sums[order] -= float(np.log(probabilities).sum())
        return sums


def _mask(order: int) -> np.uint64:
    return np.uint64((1 << (8 * order)) - 1)


def _counted(text: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The different grams of a text in order, and how often each stands there. First those of each part are counted,
    then those parts are merged, some range of grams after the other, so that little is in memory at a time."""
    parts = []
    for grams in parts_of(text):
        types, counts = np.unique(grams, return_counts=True)
        parts.append((types, counts.astype(np.int32)))
    sample, step = np.sort(np.concatenate([types[::SAMPLED] for types, _ in parts])), MERGED_AT_ONCE // SAMPLED
    firsts, merged = [0] * len(parts), []
    for highest in [*sample[step::step], _mask(MAX_ORDER)]:
        ends = [int(np.searchsorted(types, highest, side="right")) for types, _ in parts]
        places = zip(parts, map(slice, firsts, ends), strict=True)
        chosen = [(types[own], counts[own]) for (types, counts), own in places]
        types, counts = map(np.concatenate, zip(*chosen, strict=True))
        if len(types):
            merged.append(_merged(types, counts.astype(np.int64))[:2])
        firsts = ends
    types, counts = map(np.concatenate, zip(*merged, strict=True))
    return types, counts


def _merged(types: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Types, some of them equal, as different ones in order, the sums of their counts, and how many were equal."""
    order = np.argsort(types, kind="stable")
    types, counts = types[order], counts[order]
    starts = _starts(types)
    return types[starts], np.add.reduceat(counts, starts), np.diff(starts, append=len(types))


def _starts(sorted_numbers: np.ndarray) -> np.ndarray:
    """Where each different number of a sorted array, which is not empty, stands first."""
    return np.concatenate([[0], np.flatnonzero(sorted_numbers[1:] != sorted_numbers[:-1]) + 1])


def grams_of(text: bytes) -> np.ndarray:
    """For each byte of a text the number made of it and the 5 before it: (bytes,) uint64; zeros before the text."""
    row = np.frombuffer(text, dtype=np.uint8).astype(np.uint64)
    grams = row.copy()
    for back in range(1, min(MAX_ORDER, len(row))):
        grams[back:] |= row[:-back] << np.uint64(8 * back)
    return grams


def parts_of(text: bytes) -> Iterator[np.ndarray]:
    """The grams of a text, `PART_BYTES` of them at a time."""
    for start in range(0, len(text), PART_BYTES):
        first = max(0, start - MAX_ORDER)
        yield grams_of(text[first : start + PART_BYTES])[start - first :]


def byte_stream(texts: Sequence[str], whole: bool) -> Iterator[Content]:
    """Texts as the n-grams read them: like a model's tokens, with a zero byte as the end of a document."""
    for content in Texts.of(texts).contents:
        yield content
        if whole:
            yield b"\0"


def byte_ngrams(training: Sequence[str], validation: Sequence[str], whole: bool) -> dict[int, float]:
    """Nats per byte of text of the validation texts under orders 3 to 6, counted in the training texts.

    whole  the texts are whole documents: that they end is predicted too, and paid for, as a model pays for it
    """
    left, beginning = MAX_COUNTED_BYTES, list[Content]()
    for part in byte_stream(training, whole):
        beginning.append(part[:left])
        left -= len(beginning[-1])
        if not left:
            break
    sums = KneserNey(b"".join(beginning)).nats(b"".join(byte_stream(validation, whole)))
    return {order: nats / Texts.of(validation).size for order, nats in sums.items()}


def cached_byte_ngrams(name: str, training: Sequence[str], validation: Sequence[str], whole: bool) -> dict[int, float]:
    """The same, from the cache or now; `name` is what the cache says of the texts."""
    digest = hashlib.sha256(f"1 {whole} {MAX_COUNTED_BYTES}".encode())
    for side in (training, validation):
        digest.update(digest_of(byte_stream(side, True)).digest())

    def make(folder: Path) -> dict[str, Any]:
        orders = byte_ngrams(training, validation, whole)
        return {"data": name, "nats_per_byte": {str(order): orders[order] for order in orders}}

    nats = load_json(cached_entry("baselines", digest.hexdigest()[:32], make) / ABOUT)["nats_per_byte"]
    return {int(order): float(nats[order]) for order in sorted(nats)}


def favor_of(path: str, symbols: Sequence[str], weight: float) -> Callable[[Sequence[Sequence[int]]], list[float]]:
    """What n-grams of the lines of a file say of the last symbol of beginnings, numbered from 1: `weight` times log P;
    0 stands for the end. A line stands between zero bytes. Raises DataError for an empty file."""
    lines = [" ".join(text.split()) for _, text in lines_of(Path(path).expanduser())]
    text = "\0".join(line for line in lines if line).encode()
    if not text:
        raise DataError("has no texts whose n-grams could be counted", path=path)
    counted = KneserNey(b"\0" + text + b"\0")
    spelled = [b"\0", *(symbol.encode() for symbol in symbols)]
    known: dict[tuple[int, ...], float] = {}

    def favor(beginnings: Sequence[Sequence[int]]) -> list[float]:
        ends = [tuple(beginning[-MAX_ORDER - 1 :]) for beginning in beginnings]
        new = [end for end in dict.fromkeys(ends) if end not in known]
        for end in new:
            grams = grams_of(b"\0" + b"".join(spelled[number] for number in end))
            last = grams[len(grams) - len(spelled[end[-1]]) :]
            known[end] = weight * float(np.log(counted.probabilities(last, (MAX_ORDER,))[MAX_ORDER]).sum())
        return [known[end] for end in ends]

    return favor
