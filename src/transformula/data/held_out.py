"""Records that are held back to measure, where no validation data are given.

A record's hash decides, read as a fraction: below `share` it is held out. So its side depends on its content and the
seed alone, neither on its place nor on what else there is, and equal records are on one side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from ..errors import DataError
from .pairs import row_digest
from .record import Record
from .settings import FRACTION


def split_records(
    records: Iterable[Record], share: float = FRACTION, seed: int = 1, together: Sequence[str] | None = None
) -> tuple[list[Record], list[Record]]:
    """The records to train on, and about `share` of them that measure; both in the order in which they came.

    together  the fields that keep records on one side where they are equal; by default `source`, where records have
              one, so that nothing is asked in measuring that was answered in training; else all of them

    Records of one `group` (a module of python-summaries) stay together, whatever their fields. At least one group or
    record is on each side. Raises DataError where all belong together, or there is none.
    """
    rows = [(_fraction(record, seed, together), record) for record in records]
    distinct = sorted({fraction for fraction, _ in rows})
    if len(distinct) < 2:
        what = "are no records" if not rows else "is only one record, or one group of records"
        raise DataError(f"there {what}: none can be held back to measure; name more, or validation data")
    # The lowest of all is held out in any case, the highest never.
    limit = min(max(int(share * 2**64), distinct[0] + 1), distinct[-1])
    training: list[Record] = []
    held: list[Record] = []
    for fraction, record in rows:
        (held if fraction < limit else training).append(record)
    return training, held


def _fraction(record: Record, seed: int, together: Sequence[str] | None) -> int:
    """A whole number below 2^64 for the group of a record, or for its content."""
    if record.group:
        content = b"group " + record.group.encode("utf-8", "surrogatepass")
    else:
        content = b"row " + row_digest(record, together or (["source"] if "source" in record else None))
    return int.from_bytes(hashlib.blake2b(f"{seed} ".encode() + content, digest_size=8).digest(), "big")
