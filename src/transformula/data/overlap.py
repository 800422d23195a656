"""The overlap check: evaluation rows that are also training rows, as no score on these says anything.

Two rows are equal if all their fields, or those that are compared, are equal but for white space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..errors import ConfigError, DataError, setting
from .lines import shown
from .record import Record, Value

SHOWN = 10  # rows of an overlap that are listed
DESCRIBED = 100_000  # held-out rows that can be listed: those after are not kept in short

OVERLAP = ("refuse", "drop", "keep")


@dataclass(frozen=True)
class Overlap:
    """Evaluation rows that are also training rows: `rows` of `of`."""

    name: str
    rows: int
    of: int
    listed: tuple[tuple[str, str, str], ...]  # some: their place, that of the first such training row, the row in short
    digests: frozenset[bytes]  # what the rows are known by
    compared: tuple[str, ...] = ()  # the fields that were compared; none: all

    def __str__(self) -> str:
        if not self.rows:
            return f"none of the {self.of:,} rows of {self.name} is a training row"
        lines = [f"{self.rows:,} of the {self.of:,} rows of {self.name} are also training rows:"]
        lines += [f"  {held} = {trained}  {row}" for held, trained, row in self.listed]
        return "\n".join(lines + ["  ..."] * (self.rows > len(self.listed)))


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
    rows: list[tuple[bytes, str, str]] = []
    fields: list[str] = []
    for record in held:
        fields = fields or sorted(compared or record)
        short = short_row(record) if len(rows) < DESCRIBED else ""
        rows.append((row_digest(record, compared), record.place, short))
    known = {digest for digest, _, _ in rows}
    places: dict[bytes, str] = {}
    for record in training:
        if fields and sorted(compared or record) != fields:
            raise ConfigError(
                f"fields: {name} has {', '.join(fields)}, and the training data {', '.join(sorted(record))}; read both"
                " under the same names"
            )
        digest = row_digest(record, compared)
        if digest in known:
            places.setdefault(digest, record.place)
    both = [(place, places[digest], short) for digest, place, short in rows if digest in places]
    return Overlap(name, len(both), len(rows), tuple(both[:SHOWN]), frozenset(places), tuple(compared or ()))


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
            + "\nscores on rows that were trained on say nothing; drop them from training with"
            f" {setting('overlap', 'drop')}, or keep them with {setting('overlap', 'keep')}"
        )
    kept = [record for record in training if not any(row_digest(record, one.compared) in one.digests for one in found)]
    if not kept:
        raise DataError("every training row is also an evaluation row: nothing is left to train on")
    return kept, len(training) - len(kept)


def row_digest(record: Mapping[str, Value], compared: Sequence[str] | None = None) -> bytes:
    """16 bytes of a row, or of some of its fields: texts with each run of blanks as one, pictures by their pixels."""
    parts = []
    for name in sorted(compared or record):
        value = record[name]
        if isinstance(value, Tensor):
            content = str(tuple(value.shape)).encode() + value.numpy().tobytes()
        else:
            content = " ".join(one_text(value).split()).encode("utf-8", "surrogatepass")
        parts.append(b"%b %d %b" % (name.encode(), len(content), content))
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def short_row(record: Record, width: int = 48) -> str:
    """A row on one line."""
    return "  ".join(
        f"{name}: picture of {' x '.join(map(str, value.shape))}"
        if isinstance(value, Tensor)
        else f"{name}: {shown(one_text(value), width)}"
        for name, value in record.items()
    )


def one_text(value: str | float | list[str]) -> str:
    """A text, a number or a list of texts as one text."""
    return value if isinstance(value, str) else " ".join(value) if isinstance(value, list) else str(value)
