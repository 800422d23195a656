"""Built-in pairs: rows with a source and a target that are made on the spot, without a download.

    python-summaries      a function of the standard library without its docstring -> the docstring's first line
    cldr-dates:en-de      a date as one language writes it -> the same in another
    cldr-numbers:en-de    a number with its unit or currency -> the same in another
    digits                a picture of one to four digits -> these in words

`read_records` knows them by these names. Adding a set is one file in `pair_sets/`:

    @pair_set("squares")
    def read_squares(variant: str) -> Pairs:
        return Pairs([(str(n), str(n), str(n * n)) for n in range(100)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

Pair = tuple[str, "str | Tensor", str]
"""Its place, its source (a text, or a picture as records hold it), its target."""


@dataclass(frozen=True)
class Pairs:
    """What a set holds.

    rows      its pairs; they can be gone through again and again
    left_out  what was found and is no row, how often, by what it is: {"functions with hardly a body": 12}
    """

    rows: Iterable[Pair]
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PairSet:
    """A set of pairs.

    read     makes its pairs, given what stands after the colon of its name, "" for nothing
    grouped  its places are GROUP:LINE, and a split keeps a group on one side
    pictures its sources are pictures
    """

    read: Callable[[str], Pairs]
    grouped: bool
    pictures: bool


pair_sets: Registry[PairSet] = Registry("built-in pairs", "transformula.data.pair_sets")
"""Sets by name, without what stands after a colon."""


def pair_set(
    name: str, *, grouped: bool = False, pictures: bool = False
) -> Callable[[Callable[[str], Pairs]], Callable[[str], Pairs]]:
    """Decorator that announces a set of pairs."""

    def announce(read: Callable[[str], Pairs]) -> Callable[[str], Pairs]:
        pair_sets.register(name)(PairSet(read, grouped, pictures))
        return read

    return announce


def is_pair_set(source: object) -> bool:
    """Whether a source is the name of a built-in set."""
    return isinstance(source, str) and source.partition(":")[0] in pair_sets
