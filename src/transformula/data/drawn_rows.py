"""Rows that a rule draws: an algorithm's inputs and answers, as many as are asked for, without a file.

A row is a pure function of its number. Which split it belongs to is read off a hash of its content, as a fraction; a
draw that belongs elsewhere is drawn again. So no evaluation row is ever a training row, however many rows there are
of each, and equal rows are always on one side.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ..errors import DataError
from .records import Record

SHARE = 0.05  # the share of all content that is validation's; as much again is the test's
TRIES = 400  # draws for one row: a split of `SHARE` is missed by all of them once in a billion rows

Rule = Callable[[int, Random], tuple[str, str]]  # a length and a source of chance -> source, target


@dataclass(frozen=True)
class DrawnRows:
    """Rows of one rule in three splits, all lengths equally often."""

    name: str  # what rows are called: "copy:12" is the row number 12
    rule: Rule
    shortest: int
    longest: int
    same: Callable[[str], str] = lambda source: source  # what makes two rows the same

    def training(self, count: int) -> list[Record]:
        """So many rows, the first ones of an endless list; a short one may come more than once. Raises DataError where
        all content is held out."""
        return [self._drawn("training", number) for number in range(count)]

    def held(self, split: str, count: int) -> list[Record]:
        """Distinct rows of "validation" or "test": so many, or all that are found where there are fewer. Raises
        DataError where there are none."""
        distinct: dict[str, Record] = {}
        for number in range(4 * count):
            if len(distinct) == count:
                break
            with contextlib.suppress(DataError):
                record = self._drawn(split, number)
                distinct.setdefault(self.same(str(record["source"])), record)
        if not distinct:
            raise self._few(split)
        return list(distinct.values())

    def beyond(self, count: int, further: int) -> list[Record]:
        """Rows of the lengths `longest + 1` to `longest + further`, equally many of each, none of which is learned."""
        lengths = (self.longest + 1 + number % further for number in range(count))
        drawn = [self.rule(length, Random(f"{self.name} beyond {n}")) for n, length in enumerate(lengths)]
        return [Record({"source": s, "target": t}, f"{self.name}:beyond:{n}") for n, (s, t) in enumerate(drawn)]

    def _drawn(self, split: str, number: int) -> Record:
        chance = Random(f"{self.name} {split} {number}")
        for _ in range(TRIES):  # a length of few rows may have none in this split: each draw is of another
            source, target = self.rule(chance.randint(self.shortest, self.longest), chance)
            if self.split(source) == split:
                return Record({"source": source, "target": target}, f"{self.name}:{number}")
        raise self._few(split)

    def _few(self, split: str) -> DataError:
        return DataError(
            f"{self.name}: of the lengths {self.shortest} to {self.longest} there are too few different rows for"
            f" {split}; raise --longest, or take more symbols"
        )

    def split(self, source: str) -> str:
        """Where a source belongs: "training", "validation" or "test"."""
        digest = hashlib.blake2b(f"{self.name} {self.same(source)}".encode(), digest_size=8).digest()
        fraction = int.from_bytes(digest, "big") / 2**64
        return "validation" if fraction < SHARE else "test" if fraction < 2 * SHARE else "training"
