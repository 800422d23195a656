"""The residual path of a layer, past its sublayers, and where norms stand: pre-norm, post-norm or neither.

A *stream* is a name that layers set and later layers read. A value lies on the *residual path* if what enters the layer
reaches it, and it reaches what leaves, without passing a sublayer, and if, while sublayers yield zero, it is neither
zero nor the same in every channel (a gate's value is no part of the stream that it weighs).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..language.graph import OPERATIONS, Section, Stack, Value
from ..language.source import Place
from .initial_scale import Scales, sources


def streams_of(stack: Stack) -> list[str]:
    """The names that layers both set and read: by name from the layer before, or from history."""
    streams: dict[str, None] = {}
    for section in stack.layers:
        past = {name for name, _ in section.history}
        for name, value in section.leaves.items():
            by_name = any(v.name == name and v.op == "name" and not v.stack for v in section.reads.values())
            by_history = name in past and any(not v.stack for v in past_sublayers(value))
            if value.kind == "stream" and (by_name or by_history):
                streams[name] = None
    return sorted(streams, key=lambda name: name != "x")


def walk(value: Value, into: Callable[[Value], bool] = lambda value: True) -> Iterator[Value]:
    """The value and all that makes it in its section, each once; not through values that `into` refuses."""
    seen: set[Value] = set()
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if here not in seen:
            seen.add(here)
            yield here
            if into(here):
                waiting.extend(here.args)


def is_sublayer(value: Value) -> bool:
    """Whether a value is the result of a sublayer, or is made inside one."""
    return value.op == "tap" or (value.call is not None and value.call.word.sublayer)


def is_norm(value: Value) -> bool:
    return value.word_kind == "norm"


def past_sublayers(value: Value) -> Iterator[Value]:
    """The streams, carried or of history, from which a way leads to the value past all sublayers."""
    ways = walk(value, into=lambda v: not is_sublayer(v))
    return (v for v in ways if v.op in ("name", "history") and v.kind == "stream")


@dataclass
class ResidualPath:
    """The residual path of one layer.

    values  those on it, in order of evaluation
    ways    stream -> for the ways from what enters to what it leaves, whether a norm stands on them

    Streams: `bare` are those of which a way passes no norm; `only_normed` pass through norms, `lost` through sublayers.
    """

    section: Section
    values: list[Value]
    ways: dict[str, set[bool]]

    def __post_init__(self) -> None:
        self.bare = [name for name, ways in self.ways.items() if False in ways]
        self.only_normed = [name for name, ways in self.ways.items() if ways == {True}]
        self.lost = [name for name, ways in self.ways.items() if not ways]

    def of_kind(self, *kinds: str) -> list[Value]:
        return [v for v in self.values if v.word_kind in kinds]

    @property
    def weighed(self) -> bool:
        """Whether something learned weighs the stream itself: a coefficient, a gate, a mixture over depth."""
        on = set(self.values)
        factors = (a for v in self.values if v.op in ("mul", "div") for a in v.args if a not in on)
        return bool(self.of_kind("gate", "depth", "streams")) or any(a.op != "number" for a in factors)


def residual_path(section: Section, scales: Scales, streams: Sequence[str]) -> ResidualPath:
    forward: set[Value] = set()
    for value in section.values:
        if value.kind == "stream" and scales.of(value).constant is None:
            enters = value.op in ("name", "history") and not value.stack
            if enters or (not is_sublayer(value) and not forward.isdisjoint(value.args)):
                forward.add(value)
    ends = {name: value for name, value in section.leaves.items() if name in streams}
    on = forward & {v for value in ends.values() for v in walk(value, into=forward.__contains__)}
    path = [v for v in section.values if v in on]
    ways: dict[Value, set[bool]] = {}
    for value in path:
        before = [ways[a] for a in value.args if a in on] or [{False}]
        ways[value] = {True} if is_norm(value) else set().union(*before)
    return ResidualPath(section, path, {name: ways.get(value, set()) for name, value in ends.items()})


def fewest(sections: Sequence[Section], norm: float, sublayer: float) -> dict[str, int]:
    """Stream -> the finite toll of the cheapest way to it through layers, where norms and sublayers cost so much."""

    def toll(value: Value) -> float:
        """What it costs to pass; what weighs a stream (a gate, a coefficient) is no way for it."""
        if is_sublayer(value):
            return sublayer
        weighs = value.word_kind == "gate" and len(value.called.streams) < 2
        if weighs or value.word_kind == "coefficient":
            return math.inf
        return norm if is_norm(value) else 0

    paid: dict[Value, float] = {}
    standing_for = sources(sections)
    for value in (value for section in sections for value in section.values):
        if value.op in ("name", "history"):
            enters = value.kind == "stream" and not value.stack
            paid[value] = paid.get(standing_for.get(value, value), 0) if enters else math.inf
        else:
            paid[value] = min((paid.get(a, math.inf) for a in value.args), default=math.inf) + toll(value)
    left = {name: paid.get(value, math.inf) for section in sections for name, value in section.leaves.items()}
    return {name: int(cost) for name, cost in left.items() if math.isfinite(cost)}


@dataclass(frozen=True)
class NormPlacement:
    """Whether a layer is pre-norm, post-norm or neither, and why."""

    kind: str
    words: str


def norm_placement(path: ResidualPath, streams: Sequence[str]) -> NormPlacement:
    """post-norm: a norm on the residual path; pre-norm: none there, and every sublayer reads one; else neither.

    What is no stream (values kept from layer 1, constants) needs no norm.
    """
    bare = path.bare
    if path.only_normed:
        words = f"a norm stands on the residual path of {' and '.join(path.only_normed)}"
        if bare:
            words += f"; {' and '.join(bare)} passes without one"
        return NormPlacement("post-norm", words)
    if path.lost and not bare:
        return NormPlacement("neither", f"{' and '.join(path.lost)} passes only through sublayers: there is no skip")
    if any(True in ways for ways in path.ways.values()):
        return NormPlacement("neither", "the stream passes without a norm, and its norm is added to it")
    for value in path.section.calls():
        own = [a for a in value.args[: len(value.called.streams)] if not a.stack and a.op != "number"]
        if is_sublayer(value) and not _are_normed(own, streams):
            name = value.frames[0].name if value.frames else value.called.name
            line = line_of(path.section, value)
            where = "" if line is None else f" (line {line + 1})"
            words = f"no norm on the residual path, and {name}{where} reads no norm"
            on = set(path.values)
            added = [a for v in path.values if v.op in ("add", "sub") for a in v.args if a not in on]
            if added and all(_ends_in_norm(a) and any(map(is_sublayer, walk(a))) for a in added):
                words += "; what branches add is normed instead (res-post)"
            return NormPlacement("neither", words)
    if not bare:
        return NormPlacement("neither", "no stream passes from layer to layer")
    return NormPlacement("pre-norm", "no norm on the residual path, and every sublayer reads one")


def _ends_in_norm(value: Value) -> bool:
    while not is_norm(value):
        if value.word_kind == "chance":
            value = value.args[0]
        elif value.op in ("mul", "div") and any(a.kind != "stream" for a in value.args):
            value = next((a for a in value.args if a.kind == "stream"), value.args[0])
        else:
            return False
    return True


def _are_normed(values: Sequence[Value], streams: Sequence[str]) -> bool:
    """Whether all values are norms, or other sublayers' results, looked at through what has no weights."""
    ahead, seen = list(values), set()
    for here in ahead:
        if here not in seen and not is_norm(here) and not is_sublayer(here):
            seen.add(here)
            inner = _looked_through(here, streams)
            if inner is None:
                return False
            ahead.extend(inner)
    return True


def _looked_through(value: Value, streams: Sequence[str]) -> Sequence[Value] | None:
    """The values that must be normed so that a value is; None where it cannot be."""
    call = value.call
    if value.op == "list" or (call is not None and call.word.kind == "depth"):
        return value.args
    if call is not None and (call.word.kind in ("chance", "function", "shape") or call.word.initial_scale == "same"):
        return value.args[: len(call.streams)]
    if value.op in OPERATIONS:
        return [a for a in value.args if a.kind == "stream"] or None
    elsewhere = value.kind != "stream" or value.op == "input" or value.stack
    return [] if elsewhere or (value.op in ("name", "history") and value.name not in streams) else None


def line_of(section: Section, value: Value) -> int | None:
    """Which line of the section's formula, from 0, a value stands in; None if in none."""
    place = own_place(value)
    if place is None:
        return None
    here = place.line, place.column
    index = bisect_right(section.lines, here, key=lambda row: (row[0].line, row[0].column)) - 1
    if index < 0:
        return None
    line = section.lines[index][0]
    return index if place.source is line.source and here < (line.end_line, line.end_column) else None


def own_place(value: Value) -> Place | None:
    """Where a value stands in its section's formula: for one inside a definition, the definition's call."""
    return value.frames[0].place if value.frames else value.place
