"""Built-in sets: rows that are made on the spot, without a download. They are named like files. Adding a set is one
file in `sets/`:

    @built_in("squares", columns=("source", "target"))
    def read_squares(variant: str) -> Rows:
        return Rows([(f"square {n}", str(n), str(n * n)) for n in range(100)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ..registry import Registry

Kind = Literal["texts", "pairs", "pictures", "sounds", "questions", "labeled", "dialogues", "replies"]
ROWS: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind != "texts")  # of which a table has columns


@dataclass(frozen=True)
class Rows:
    """What a set holds.

    rows      (place, a value for each column)
    left_out  what was found and is no row, how often, by what it is: {"functions with hardly a body": 12}
    """

    rows: Iterable[tuple[Any, ...]]
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BuiltIn:
    """A built-in set."""

    read: Callable[[str], Rows]  # makes its rows, given what stands after the colon of its name, "" for nothing
    columns: Sequence[str]  # their names: ("text",), ("source", "target"), ("text", "label"), ("messages", "tools")
    grouped: bool = False  # its places are GROUP:LINE, and a split keeps a group on one side
    pictures: bool = False  # the first column holds pictures
    sounds: bool = False  # the first column holds sounds
    variant: str = ""  # an example of what stands after the colon of its name

    @property
    def kind(self) -> Kind:
        """What its rows are."""
        if len(self.columns) == 1:
            return "texts"
        if "messages" in self.columns:
            return "dialogues"
        if {"output", "chosen"} & {*self.columns}:
            return "replies"
        if "question" in self.columns:
            return "questions"
        if self.sounds:
            return "sounds"
        return "pictures" if self.pictures else "pairs" if "source" in self.columns else "labeled"


built_in_sets: Registry[BuiltIn] = Registry("built-in set", "transformula.data.sets", "@built_in(")
"""Without what follows the colon of a name."""


def built_in(
    name: str, columns: Sequence[str], *, needs: Sequence[str] = (), **about: Any
) -> Callable[[Callable[[str], Rows]], Callable[[str], Rows]]:
    """Decorator that registers a set; `needs` are optional packages, the rest: see `BuiltIn`."""

    def decorate(read: Callable[[str], Rows]) -> Callable[[str], Rows]:
        built_in_sets.register(name, needs)(BuiltIn(read, columns, **about))
        return read

    return decorate


def built_in_names(*kinds: Kind) -> list[str]:
    """A name of each set of some kinds, or of all, as it can be given: "cldr-dates:en-de"."""
    known = {name: built_in_sets.get(name) for name in built_in_sets.names()}
    return [f"{name}:{one.variant}".rstrip(":") for name, one in known.items() if not kinds or one.kind in kinds]


def is_built_in(source: object) -> bool:
    """Whether a source is the name of a built-in set."""
    return isinstance(source, str) and source.partition(":")[0] in built_in_sets
