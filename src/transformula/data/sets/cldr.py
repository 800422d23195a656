"""What the sets from CLDR share: things that every language writes in its own way, written in two of them.

CLDR, the Unicode consortium's data of languages, comes with the package babel (extra `cldr`). A pair is a pure function
of its index: which way of writing it is, is the index modulo their number; of what, a permutation keyed by the seed.

Two ways of writing (a date in full, and in short) share the things that they write, so that none comes twice. Where a
language writes both alike, the target is in the first of them: a source has one target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DataError, did_you_mean, nearest
from ...extras import need
from ..built_in import Rows
from ..order import Permutation

Pair = tuple[str, str, str]
"""Its place, its source and its target."""

COUNT = 20_000
"""Pairs of a set."""

SEED = 1

Locale = Any
"""A language, as babel knows it."""

Way = Callable[[int, Locale], str]
"""The number of a thing, a language -> how the language writes it."""


@dataclass(frozen=True)
class Things:
    """Things that are written in one or several ways: days, amounts of money.

    count  how many there are; they are numbered from 0
    ways   those in which a reader finds most come first
    """

    name: str
    count: int
    ways: tuple[Way, ...]


class TwoLanguages:
    """Pairs of things written in two languages; `[i]` is a pure function of i, the seed and the version of CLDR.

    A way of writing that one of the languages does not have (Japanese no long form of large numbers) is left out.
    """

    def __init__(
        self, name: str, things: Sequence[Things], source: Locale, target: Locale, count: int = COUNT, seed: int = SEED
    ) -> None:
        self.name, self.source, self.target, self.count = name, source, target, count
        known = [Things(one.name, one.count, tuple(self._known(one.ways))) for one in things]
        ways = [(one, place) for one in known for place in range(len(one.ways))]
        if not ways:
            raise DataError("CLDR has nothing of the kind in one of these languages; name others", path=name)
        rounds = -(-count // len(ways))
        numbers = {}
        for place, one in enumerate(known):
            wanted = rounds * len(one.ways)
            if wanted > one.count:
                raise DataError(f"{count:,} pairs are more than there are {one.name}; ask for fewer", path=name)
            if one.ways:
                numbers[one.name] = Permutation(one.count, seed, place)(np.arange(wanted))
        self._ways, self._numbers = ways, numbers

    def _known(self, ways: Sequence[Way]) -> Iterator[Way]:
        for way in ways:
            try:
                way(0, self.source), way(0, self.target)
            except (KeyError, AttributeError):  # what babel raises where the data of a language have a gap
                continue
            yield way

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Pair:
        if not 0 <= index < self.count:
            raise IndexError(index)
        things, place = self._ways[index % len(self._ways)]
        number = int(self._numbers[things.name][index // len(self._ways) * len(things.ways) + place])
        source = things.ways[place](number, self.source)
        first = next(way for way in things.ways if way(number, self.source) == source)
        return f"{self.name}, pair {index + 1}", source, first(number, self.target)

    def __iter__(self) -> Iterator[Pair]:
        return (self[index] for index in range(self.count))


def read_cldr(name: str, variant: str, things: Callable[[], Sequence[Things]]) -> Rows:
    """The set NAME:VARIANT, where the variant is two languages, as in "en-de". Raises DataError, MissingExtra."""
    babel = need("babel", f"making {name}")
    parts = variant.split("-")
    if len(parts) != 2 or not all(parts):
        raise DataError(f"name two languages after it, as in {name}:en-de or {name}:pt_BR-zh_Hant", path=name)
    full = f"{name}:{variant}"
    if parts[0] == parts[1]:
        raise DataError("these are the same language; name two", path=full)
    source, target = (_language(babel, part, full) for part in parts)
    return Rows(TwoLanguages(full, things(), source, target))


def _language(babel: Any, name: str, where: str) -> Locale:
    known = babel.localedata.locale_identifiers()
    if name not in known:
        near = did_you_mean(nearest(name, known))
        raise DataError(
            f"CLDR has no language {name!r};{near} a language is its code, with script and country after it where"
            " they matter: de, pt_BR, zh_Hant",
            path=where,
        )
    return babel.Locale.parse(name)
