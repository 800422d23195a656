"""The gallery's entries nearest to a wiring, by edits of its layers' graphs, and what differs from the first."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .. import gallery
from ..analysis.analysis import WIDTH
from ..analysis.budget import Budget
from ..analysis.canonical import formula_hash
from ..analysis.graph_distance import WiringShape, distance, pairs_of_nodes, shape_of, unseen
from ..diagram import difference
from ..diagram.differences import ModelDifference
from ..errors import InputError
from ..language.check import check
from ..language.graph import Architecture
from ..language.vocabulary import Vocabulary
from ..notebook import page

YOURS = "yours"
"""What a wiring without a name is called."""

LAST = ("teaching", "whole model")
"""Kinds of entries that come after others of the same wiring."""

LEFT_OUT = "neighbours in the gallery: its layers are too large, or too many of them differ, to compare them with all"


@dataclass(frozen=True)
class Neighbour:
    """One entry. `distance` in edits a layer, 0 for the same wiring; `differs`: what the wiring key does not count."""

    name: str
    title: str
    distance: float
    differs: tuple[str, ...] = ()
    wiring: str = ""

    @property
    def data(self) -> dict[str, Any]:
        return {"name": self.name, "title": self.title, "distance": self.distance, "differs": list(self.differs)}


@dataclass(frozen=True)
class Nearest:
    """What `nearest` returns: `neighbours`, nearest first, and the `difference` from the first.

    Its `repr` is the page for a person; `.data` is for programs.
    """

    architecture: Architecture
    neighbours: Sequence[Neighbour]
    first: Architecture

    @cached_property
    def difference(self) -> ModelDifference:
        """What differs between the wiring and the nearest entry: equations, parts, edges."""
        name = self.architecture.name
        yours = YOURS if not name or name == self.first.name else name
        return difference(self.first, replace(self.architecture, name=yours))

    @property
    def data(self) -> dict[str, Any]:
        return {"neighbours": [n.data for n in self.neighbours], "difference": self.difference.data}

    def table(self) -> list[str]:
        """The entries, a line each."""
        rows = ["nearest in the gallery, by edits a layer (0: the same wiring)"]
        width = max(len(n.name) for n in self.neighbours)
        for n in self.neighbours:
            said = f"{n.title} ({', '.join(n.differs)})" if n.differs else n.title
            first = f"  {n.distance:<5.3g} {n.name:<{width}}  "
            rows += textwrap.wrap(said, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
        return rows

    def text(self, ascii: bool = False) -> str:
        """The page; `ascii` draws without other characters."""
        return "\n".join([*self.table(), "", self.difference.text(ascii)])

    def _repr_html_(self) -> str:
        return page("\n".join(self.table())) + self.difference._repr_html_()

    def __repr__(self) -> str:
        return self.text()


def differs(mine: Mapping[str, Sequence[str]], theirs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What an entry of the same wiring has that mine has not, or the other way, in words; see `distance.unseen`."""
    more = {what: [name for name in theirs[what] if name not in mine[what]] for what in mine}
    less = {what: [name for name in mine[what] if name not in theirs[what]] for what in mine}
    own = [name for name in more["shared"] if name != "layers"]
    norms = theirs["norms"] if theirs["norms"] != mine["norms"] else ()
    said = {
        f"its norm is {' and '.join(norms)}": norms,
        f"with {' and '.join(more['chance'])}": more["chance"],
        f"without {' and '.join(less['chance'])}": less["chance"],
        f"with the formula {' and '.join(more['scores'])}": more["scores"],
        f"without the formula {' and '.join(less['scores'])}": less["scores"],
        "its layers share weights": "layers" in more["shared"],
        f"one {' and one '.join(own)} for several calls": own,
        "each layer has weights of its own": "layers" in less["shared"],
        "each call has weights of its own": {*less["shared"]} - {"layers"},
    }
    return tuple(text for text, holds in said.items() if holds)


def named(wiring: str) -> tuple[str, ...]:
    """The names of the entries of a wiring, those first that are about the wiring."""
    found = [entry for entry in gallery.indexed() if entry.wiring == wiring]
    kinds = [kind for kind in gallery.KINDS if kind not in LAST] + list(LAST)
    return tuple(e.name for e in sorted(found, key=lambda e: (kinds.index(e.about["kind"]), e.name))[:1])


def comparable(architecture: Architecture, budget: Budget) -> bool:
    """Whether the layers of a model are small enough to be compared with the gallery's."""
    size = max((len(section.values) for stack in architecture.stacks for section in stack.layers), default=0)
    return budget.allows("a graph", size, LEFT_OUT)


def neighbours(architecture: Architecture, shape: WiringShape, hash: str, budget: Budget) -> list[Neighbour]:
    """All entries but the wiring itself, nearest first; among equals those first that differ least otherwise. None
    where the budget is too small for all. `shape` and `hash` are those of the model."""
    if not budget.spend("compared", sum(pairs_of_nodes(shape, entry.shape) for entry in gallery.indexed()), LEFT_OUT):
        return []
    own = unseen(architecture)
    found: list[tuple[tuple[object, ...], Neighbour]] = []
    for entry in gallery.indexed():
        apart = distance(shape, entry.shape)
        if entry.name == architecture.name and not apart:
            continue
        different = differs(own, entry.unseen)
        order = (apart, entry.hash != hash, len(different), entry.about["kind"] in LAST, entry.name)
        found.append((order, Neighbour(entry.name, entry.title, apart, () if apart else different, entry.wiring)))
    return [neighbour for _, neighbour in sorted(found, key=lambda pair: pair[0])]


def one_of_each(found: Sequence[Neighbour], count: int) -> list[Neighbour]:
    """The first of each wiring."""
    first = {neighbour.wiring: neighbour for neighbour in reversed(found)}
    return [neighbour for neighbour in found if first[neighbour.wiring] is neighbour][:count]


def nearest(architecture: Architecture, vocabulary: Vocabulary, count: int = 5) -> Nearest:
    """The `count` nearest entries. `vocabulary` is what the model was checked with."""
    budget = Budget()
    found: list[Neighbour] = []
    if comparable(architecture, budget):
        shape = shape_of(architecture.text, vocabulary)
        found = neighbours(architecture, shape, formula_hash(architecture), budget)[:count]
    if budget.left_out:
        raise InputError(f"no neighbours are looked for: {LEFT_OUT}; write smaller layers")
    return Nearest(architecture, found, check(gallery.load(found[0].name), vocabulary))
