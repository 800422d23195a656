"""What is worth watching by depth: the streams after each layer, what each sublayer adds, the learned coefficients.

    ByDepth(stack="", streams={"x": ["layers.1.entering.x", "layers.1.x", "layers.2.x"]},
            writes={"attention": [SublayerWrite("layers.1.line1.add.right", "layers.1.line1.add.left"), ...]},
            coefficients={"gain": ["layers.1.gain.output", "layers.2.gain.output"]})

Names are those of `places.py`; None stands where a layer has no such thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..language.graph import Architecture, Section, Stack, Value
from .initial_scale import Scales, copies_in
from .lines import is_branch
from .places import SectionPlaces, through
from .residual_path import past_sublayers, residual_path, streams_of, walk


class SublayerWrite(NamedTuple):
    """A sum on the residual path, by the names of its edges: what a branch adds, and the stream that it is added to."""

    branch: str
    stream: str


@dataclass(frozen=True)
class ByDepth:
    """One stack.

    streams       name -> its value on entering the first layer and on leaving each layer; of a stack that carries
                  nothing from layer to layer, the names that layers leave for later ones
    writes        role of a sublayer -> for each layer where its result is added
    coefficients  role of a learned number or vector -> its value in each layer
    """

    stack: str
    streams: dict[str, list[str | None]]
    writes: dict[str, list[SublayerWrite | None]]
    coefficients: dict[str, list[str | None]]

    def places_of_streams(self) -> dict[str, None]:
        """All places of streams, each once."""
        return dict.fromkeys(place for places in self.streams.values() for place in places if place is not None)

    def edges_of_writes(self) -> dict[str, None]:
        """All edges at which something is added, each once."""
        return dict.fromkeys(edge for row in self.writes.values() for write in filter(None, row) for edge in write)


def name_in_stack(stack: str, name: str) -> str:
    """A name, behind that of its stack where there are several."""
    return f"{stack}.{name}" if stack else name


def ratio(part: float | None, whole: float | None) -> float | None:
    """The ratio of two numbers of a layer; None where one of them is not known, or the whole is 0."""
    return part / whole if part is not None and whole else None


def by_depth(architecture: Architecture) -> list[ByDepth]:
    """For each stack of a model, in order."""
    return [of_stack(stack) for stack in architecture.stacks]


def of_stack(stack: Stack) -> ByDepth:
    left = {name for section in stack.layers for name, value in section.leaves.items() if value.kind == "stream"}
    names, depth = streams_of(stack) or sorted(left), stack.depth
    here = ByDepth(stack.name, {name: [] for name in names}, {}, {})
    for number, section in enumerate(stack.layers):
        named = SectionPlaces(section)
        places = {place.value: place for place in named.values()}
        for name, row in here.streams.items():
            if not number:
                row.append(entering(stack, name))
            value = through(section.leaves[name]) if name in section.leaves else None
            row.append(places[value].name if value in places else None)
        for role, write in writes_of(section, stack, {(e.value, e.argument): e.name for e in named.edges()}):
            here.writes.setdefault(role, [None] * depth)[number] = write
        for value, place in places.items():
            if value.word_kind == "coefficient" and value.called.word.parameters:
                role = ".".join([*(frame.role for frame in value.frames), value.called.role])
                here.coefficients.setdefault(role, [None] * depth)[number] = place.name
    return here


def entering(stack: Stack, name: str) -> str | None:
    """The place of a stream on entering the first layer."""
    for section, values in ((stack.layers[0], stack.layers[0].reads), (stack.before, stack.before.leaves)):
        if name in values:
            value = through(values[name])
            return next((place.name for place in SectionPlaces(section).values() if place.value is value), None)
    return None


def writes_of(
    section: Section, stack: Stack, edges: Mapping[tuple[Value, int | None], str]
) -> Iterator[tuple[str, SublayerWrite]]:
    """The sums on the residual path to which a branch is added, by the branch's last sublayer. `edges`: their names."""
    scales = Scales(copies_in(stack))
    scales.section(section)
    order = {value: n for n, value in enumerate(section.values)}
    for value in residual_path(section, scales, streams_of(stack)).values:
        branches = [n for n, term in enumerate(value.args) if value.op in ("add", "sub") and is_branch(term, scales)]
        if len(branches) == 1 and any(past_sublayers(value.args[1 - branches[0]])):
            (branch,) = branches
            inside = [v for v in walk(value.args[branch]) if v.call is not None and v.call.word.sublayer]
            last = max(inside, key=order.__getitem__)
            role = last.frames[0].role if last.frames else last.called.role
            yield role, SublayerWrite(edges[value, branch], edges[value, 1 - branch])
