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

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    variant  what may stand after the colon of its name, for instance; "" for nothing
    """

    read: Callable[[str], Pairs]
    grouped: bool
    pictures: bool
    variant: str = ""


pair_sets: Registry[PairSet] = Registry("built-in pairs", "transformula.data.pair_sets")
"""Sets by name, without what stands after a colon."""


def pair_set(
    name: str, *, grouped: bool = False, pictures: bool = False, variant: str = "", needs: Sequence[str] = ()
) -> Callable[[Callable[[str], Pairs]], Callable[[str], Pairs]]:
    """Decorator that announces a set of pairs; `needs` are optional packages."""

    def announce(read: Callable[[str], Pairs]) -> Callable[[str], Pairs]:
        pair_sets.register(name, needs)(PairSet(read, grouped, pictures, variant))
        return read

    return announce


def pair_set_names(pictures: bool) -> list[str]:
    """A name of each set whose sources are pictures, or texts, as it can be given: "cldr-dates:en-de"."""
    known = {name: pair_sets.get(name) for name in pair_sets.names()}
    return [f"{name}:{one.variant}".rstrip(":") for name, one in known.items() if one.pictures == pictures]


def is_pair_set(source: object) -> bool:
    """Whether a source is the name of a built-in set."""
    return isinstance(source, str) and source.partition(":")[0] in pair_sets
