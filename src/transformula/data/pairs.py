"""What is said of records before training: examples, lengths, unknown signs, and rows that measure and are trained on.

lengths of a side   tokens that its tokenizer cuts each text into; begin and end, which a task adds, are not counted
unknown             characters that the tokenizer cannot encode, of all characters
overlap             rows of the held-out records all of whose fields, but for blanks, a training row has too
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import ConfigError, DataError, InputError, setting
from ..tokenizers.base import Tokenizer
from .lines import shown
from .record import Record, Value
from .spelling import PLAIN, Spelling

SHOWN = 10
"""Rows of an overlap that are listed."""

OVERLAP = ("refuse", "drop", "keep")


@dataclass(frozen=True)
class Lengths:
    """Tokens of the texts of one side: their mean, how many half, 95 and 99 % of them have at most, and the longest."""

    texts: int
    mean: float
    half: int
    most: int
    nearly_all: int
    longest: int

    @classmethod
    def of(cls, lengths: np.ndarray) -> Lengths:
        """Of (texts,) lengths. Raises DataError for none."""
        if not len(lengths):
            raise DataError("there are no texts to measure")
        half, most, nearly_all = (int(np.quantile(lengths, q, method="higher")) for q in (0.5, 0.95, 0.99))
        return cls(len(lengths), float(np.mean(lengths)), half, most, nearly_all, int(np.max(lengths)))

    def __str__(self) -> str:
        return (
            f"{self.mean:.1f} tokens on average; half have at most {self.half}, 95 % {self.most},"
            f" 99 % {self.nearly_all}; the longest {self.longest}"
        )


@dataclass(frozen=True)
class Unknown:
    """Characters that a tokenizer cannot encode, of how many; the most frequent first."""

    unknown: int
    characters: int
    which: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Their share."""
        return self.unknown / max(1, self.characters)

    def __str__(self) -> str:
        if not self.unknown:
            return "0 % unknown"
        named = ", ".join(repr(sign) for sign in self.which[:SHOWN])
        return f"{100 * self.rate:.3g} % of {self.characters:,} characters unknown ({named})"


def unknown_signs(texts: Sequence[str], tokenizer: Tokenizer) -> Unknown:
    """What of the texts the tokenizer cannot encode, each character tried by itself."""
    counted: Counter[str] = Counter()
    for text in texts:
        counted.update(text)
    refused = []
    for sign, _ in counted.most_common():
        try:
            tokenizer.encode_many([sign])
        except InputError:
            refused.append(sign)
    return Unknown(sum(counted[sign] for sign in refused), counted.total(), tuple(refused))


@dataclass(frozen=True)
class Overlap:
    """Rows of held-out records that are training rows too.

    rows     how many, of how many
    listed   the first of them: (their place, the place of the first such training row, the row in short)
    digests  what the rows are known by
    compared  the fields that were compared; none: all
    """

    name: str
    rows: int
    of: int
    listed: tuple[tuple[str, str, str], ...]
    digests: frozenset[bytes]
    compared: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.rows:
            return f"none of the {self.of:,} rows of {self.name} is trained on"
        lines = [f"{self.rows:,} of the {self.of:,} rows of {self.name} are training rows too:"]
        lines += [f"  {held} = {trained}  {row}" for held, trained, row in self.listed]
        return "\n".join([*lines, *(["  ..."] if self.rows > len(self.listed) else [])])


def find_overlap(
    training: Iterable[Record],
    held: Iterable[Record],
    name: str = "the validation data",
    compared: Sequence[str] | None = None,
) -> Overlap:
    """Which held-out rows are training rows. Of the training rows nothing is kept in memory.

    compared  the fields that make rows equal, e.g. the source alone; None: all

    Raises ConfigError where the two have fields of other names: their rows could never be equal.
    """
    places: dict[bytes, str] = {}
    rows: list[tuple[bytes, str, str]] = []
    fields: list[str] = []
    for record in held:
        fields = fields or sorted(compared or record)
        digest = row_digest(record, compared)
        places[digest] = ""
        rows.append((digest, record.place, "" if len(rows) >= 100_000 else _short(record)))
    met: set[bytes] = set()
    for record in training:
        if fields and sorted(compared or record) != fields:
            raise ConfigError(
                f"fields: {name} has {', '.join(fields)}, and the training data {', '.join(sorted(record))}; read both"
                " under the same names"
            )
        digest = row_digest(record, compared)
        if digest in places and digest not in met:
            met.add(digest)
            places[digest] = record.place
    both = [(place, places[digest], short) for digest, place, short in rows if digest in met]
    return Overlap(name, len(both), len(rows), tuple(both[:SHOWN]), frozenset(met), tuple(compared or ()))


def without_overlap(
    training: Sequence[Record], overlaps: Sequence[Overlap], overlap: str = "refuse"
) -> tuple[Sequence[Record], int]:
    """The training records to go on with, and how many were left out.

    overlap  "refuse": an overlap is an error; "drop": such rows are not trained on; "keep": they are

    Raises DataError that lists the rows, ConfigError for another word.
    """
    if overlap not in OVERLAP:
        raise ConfigError(f"overlap: {overlap!r} is none of: {', '.join(OVERLAP)}")
    found = [one for one in overlaps if one.rows]
    if not found or overlap == "keep":
        return training, 0
    if overlap == "refuse":
        raise DataError(
            "\n".join(map(str, found))
            + "\nscores on rows that were trained on say nothing; leave these out of training"
            f" with {setting('overlap', 'drop')}, or train as it is with {setting('overlap', 'keep')}"
        )
    kept = [record for record in training if not any(row_digest(record, one.compared) in one.digests for one in found)]
    if not kept:
        raise DataError("every training row is also a held-out row: nothing is left to train on")
    return kept, len(training) - len(kept)


def row_digest(record: Mapping[str, Value], compared: Sequence[str] | None = None) -> bytes:
    """16 bytes of a row, or of some of its fields: texts with each run of blanks as one, pictures by their pixels."""
    parts = []
    for name in sorted(compared or record):
        value = record[name]
        if isinstance(value, Tensor):
            content = str(tuple(value.shape)).encode() + value.numpy().tobytes()
        else:
            content = " ".join(_said(value).split()).encode("utf-8", "surrogatepass")
        parts.append(b"%b %d %b" % (name.encode(), len(content), content))
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def _short(record: Record, width: int = 48) -> str:
    """A row on one line."""
    parts = []
    for name, value in record.items():
        if isinstance(value, Tensor):
            parts.append(f"{name}: picture of {' x '.join(map(str, value.shape))}")
        else:
            parts.append(f"{name}: {shown(_said(value), width)}")
    return "  ".join(parts)


def _said(value: Value) -> str:
    """A text, a number or a list of texts as one text."""
    return value if isinstance(value, str) else " ".join(value) if isinstance(value, list) else str(value)


@dataclass(frozen=True, repr=False)
class RecordsPreview:
    """What is said before training; its `repr` is for people, `.data` for programs."""

    examples: tuple[str, ...]
    lengths: dict[str, Lengths]
    unknown: dict[str, Unknown]
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "examples": list(self.examples),
            "lengths": {side: asdict(one) for side, one in self.lengths.items()},
            "unknown": {side: one.rate for side, one in self.unknown.items()},
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        lines = [("examples" if i == 0 else "", text) for i, text in enumerate(self.examples)]
        lines += [(side, f"{one}; {self.unknown[side]}") for side, one in self.lengths.items()]
        lines += [("note", note) for note in self.notes]
        width = max(len(name) for name, _ in lines) + 2
        return "\n".join(f"{name:<{width}}{text}" for name, text in lines)


def preview_records(
    records: Sequence[Record],
    tokenizers: Mapping[str, Tokenizer],
    notes: Sequence[str] = (),
    spelling: Spelling = PLAIN,
    known: Mapping[str, np.ndarray] | None = None,
) -> RecordsPreview:
    """The first five records, and each side's lengths and unknown signs, by the side's tokenizer.

    known  the lengths of sides that were encoded before, and so hold nothing unknown

    Texts that a tokenizer cannot encode count as unknown and are measured without what is unknown in them.
    """
    if not records:
        raise DataError("there are no rows; nothing can be trained on")
    lengths, unknown = {}, {}
    for side, tokenizer in tokenizers.items():
        texts = spelling.texts(records, side)
        if known is not None and side in known:
            unknown[side] = Unknown(0, sum(map(len, texts)))
            lengths[side] = Lengths.of(known[side])
            continue
        try:
            ids = tokenizer.encode_many(texts)
            unknown[side] = Unknown(0, sum(map(len, texts)))
        except InputError:
            unknown[side] = unknown_signs(texts, tokenizer)
            without = str.maketrans(dict.fromkeys(unknown[side].which, ""))
            ids = tokenizer.encode_many([text.translate(without) for text in texts])
        lengths[side] = Lengths.of(np.array([len(one) for one in ids]))
    return RecordsPreview(tuple(_short(record) for record in records[:5]), lengths, unknown, tuple(notes))
