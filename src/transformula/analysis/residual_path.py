"""The structure of a layer: its trunk (the way of the carried streams past the sublayers), skips, branches, norms.

A *stream* is a name that layers set and later layers read. A value lies on the *trunk* if what enters the layer reaches
it, and it reaches what leaves, without passing a sublayer, and if with branches silent it is neither zero nor the same
in every channel (a gate's value is no part of the stream that it weighs).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..language.graph import Section, Stack, Value
from ..language.source import Place
from .initial_scale import Known, Silence, Size

SUMS = ("add", "sub")


def streams_of(stack: Stack) -> list[str]:
    """The names that layers both set and read: by name from the layer before, or from history."""
    found: dict[str, None] = {}
    for section in stack.layers:
        past = {name for name, _ in section.history}
        for name, value in section.leaves.items():
            if value.kind != "stream" or name in found:
                continue
            by_name = any(v.name == name and v.op == "name" and not v.stack for v in section.reads.values())
            if by_name or (name in past and _passes(value, set())):
                found[name] = None
    return sorted(found, key=lambda name: name != "x")


def _passes(value: Value, seen: set[int]) -> bool:
    """Whether a name or a piece of history that enters reaches the value without passing a sublayer."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        if here.op in ("name", "history") and here.kind == "stream" and not here.stack:
            return True
        if here.op == "tap" or (here.call is not None and here.call.word.sublayer):
            continue
        waiting.extend(here.args)
    return False


def has_sublayer(value: Value) -> bool:
    """Whether a sublayer stands anywhere in what makes the value, in this section."""
    return any(v.call is not None and v.call.word.sublayer for v in within(value))


def within(value: Value) -> Iterator[Value]:
    """The value and all that makes it in its section."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            waiting.extend(here.args)


def alive(size: Size) -> bool:
    """Whether a value carries something of the stream with silent branches."""
    return not (isinstance(size, Known) and size.constant is not None)


@dataclass
class Trunk:
    """The trunk of one layer.

    values  those on it, in order of evaluation
    plain   stream -> whether a way passes from what enters to what it leaves without a norm
    normed  stream -> whether a norm stands on one of the ways
    """

    section: Section
    values: list[Value] = field(default_factory=list)
    plain: dict[str, bool] = field(default_factory=dict)
    normed: dict[str, bool] = field(default_factory=dict)

    def of_kind(self, *kinds: str) -> list[Value]:
        """Calls of these kinds on the trunk."""
        return [v for v in self.values if v.call is not None and v.call.word.kind in kinds]

    @property
    def weighed(self) -> bool:
        """Whether something learned weighs the stream itself: a coefficient, a gate, a mixture over depth."""
        on = {id(v) for v in self.values}
        factors = (a for v in self.values if v.op in ("mul", "div") for a in v.args if id(a) not in on)
        return bool(self.of_kind("gate", "depth", "streams")) or any(a.op != "number" for a in factors)


def trunk_of(section: Section, silence: Silence, streams: Sequence[str]) -> Trunk:
    """The trunk of a section that `silence` has evaluated."""
    forward: set[int] = set()
    for value in section.values:
        if value.kind != "stream" or not alive(silence.of(value)):
            continue
        if value.op in ("name", "history"):
            if not value.stack:
                forward.add(id(value))
        elif value.op != "tap" and not (value.call is not None and value.call.word.sublayer):
            if any(id(a) in forward for a in value.args):
                forward.add(id(value))
    backward: set[int] = set()
    ends = [v for n, v in section.leaves.items() if n in streams]
    for value in ends:
        waiting = [value]
        while waiting:
            here = waiting.pop()
            if id(here) in forward and id(here) not in backward:
                backward.add(id(here))
                waiting.extend(here.args)
    trunk = Trunk(section, [v for v in section.values if id(v) in backward])
    plain: dict[int, bool] = {}
    normed: dict[int, bool] = {}
    for value in trunk.values:
        before = [a for a in value.args if id(a) in backward]
        norm = value.call is not None and value.call.word.kind == "norm"
        plain[id(value)] = not norm and (not before or any(plain[id(a)] for a in before))
        normed[id(value)] = norm or any(normed[id(a)] for a in before)
    for name, value in section.leaves.items():
        if name in streams:
            trunk.plain[name] = plain.get(id(value), False)
            trunk.normed[name] = normed.get(id(value), False)
    return trunk


def fewest_norms(stack: Stack) -> dict[str, int]:
    """Stream -> on how many norms the way with the fewest comes, from what enters the first layer to what leaves the
    last; through history too, and past no sublayer. Streams without such a way are left out."""
    return fewest(stack.layers, norm=1, sublayer=math.inf)


def fewest_sublayers(section: Section) -> dict[str, int]:
    """Stream -> how many sublayers of one layer no way through it avoids."""
    return fewest([section], norm=0, sublayer=1)


def fewest(sections: Sequence[Section], norm: float, sublayer: float) -> dict[str, int]:
    """Name -> the toll of the cheapest way to it through some layers, where norms and sublayers cost so much."""
    state: dict[str, float] = {}
    past: dict[tuple[str, int], float] = {}
    for section in sections:
        here: dict[int, float] = {}
        for value in section.values:
            if value.op in ("name", "history"):
                key = (value.name, int(value.number))
                paid = state.get(value.name, 0) if value.op == "name" else past.get(key, 0)
                here[id(value)] = math.inf if value.stack or value.kind != "stream" else paid
                continue
            ways = (here.get(id(a), math.inf) for a in value.args if a.op != "number")
            here[id(value)] = min(ways, default=math.inf) + _toll(value, norm, sublayer)
        for name, value in section.leaves.items():
            state[name] = here.get(id(value), math.inf)
        past |= {(name, section.number): toll for name, toll in state.items()}
    return {name: int(toll) for name, toll in state.items() if math.isfinite(toll)}


def _toll(value: Value, norm: float, sublayer: float) -> float:
    """What it costs to pass a value; what weighs a stream (a gate, a coefficient) is no way for it."""
    call = value.call
    if call is None:
        return sublayer if value.op == "tap" else 0
    if call.word.sublayer:
        return sublayer
    if call.word.kind == "coefficient" or (call.word.kind == "gate" and len(call.streams) < 2):
        return math.inf
    return norm if call.word.kind == "norm" else 0


@dataclass(frozen=True)
class Norming:
    """Whether a layer is pre-norm, post-norm or neither, and why."""

    kind: str
    words: str


def norming(trunk: Trunk, place_of: Mapping[int, int], streams: Sequence[str]) -> Norming:
    """post-norm: a norm on the trunk; pre-norm: none there, and every sublayer reads one; else neither.

    `place_of`: value -> its line, for the words. What is no stream (values kept from layer 1, constants) needs no norm.
    """
    on = [name for name in trunk.plain if trunk.normed[name] and not trunk.plain[name]]
    lost = [name for name in trunk.plain if not trunk.normed[name] and not trunk.plain[name]]
    bare = [name for name in trunk.plain if trunk.plain[name]]
    if on:
        words = f"a norm stands on the stream {' and '.join(on)}"
        if bare:
            words += f"; {' and '.join(bare)} passes without one"
        return Norming("post-norm", words)
    if lost and not bare:
        return Norming("neither", f"{' and '.join(lost)} passes only through sublayers: there is no skip")
    if any(trunk.normed.values()):
        return Norming("neither", "the stream passes without a norm, and its norm is added to it")
    for value in trunk.section.calls():
        read = _read_by(value)
        if read is not None and not _reads_norm(read, streams):
            call = value.call
            assert call is not None
            name = value.frames[0].name if value.frames else call.name
            line = place_of.get(id(value))
            where = f" (line {line})" if line else ""
            words = f"no norm on the stream, and {name}{where} reads no norm"
            if _adds_norms(trunk):
                words += "; what branches add is normed instead (res-post)"
            return Norming("neither", words)
    if not bare:
        return Norming("neither", "no stream passes from layer to layer")
    return Norming("pre-norm", "no norm on the stream, and every sublayer reads one")


def _adds_norms(trunk: Trunk) -> bool:
    """Whether everything that is added to the trunk is a norm."""
    on = {id(v) for v in trunk.values}
    added = [a for v in trunk.values if v.op in SUMS for a in v.args if id(a) not in on]
    return bool(added) and all(has_sublayer(a) and _ends_in_norm(a) for a in added)


def _ends_in_norm(value: Value) -> bool:
    while True:
        call = value.call
        if call is not None and call.word.kind == "norm":
            return True
        if call is not None and call.word.kind == "chance":
            value = value.args[0]
        elif value.op in ("mul", "div") and any(a.kind != "stream" for a in value.args):
            value = next((a for a in value.args if a.kind == "stream"), value.args[0])
        else:
            return False


def _read_by(value: Value) -> list[Value] | None:
    """What a sublayer reads of its own stack, as the formula writes it; None for what is no sublayer."""
    call = value.call
    assert call is not None
    if not call.word.sublayer:
        return None
    streams = value.args[: len(call.streams)]
    return [a for a in streams if not a.stack and a.op != "number"] or None


def _reads_norm(values: Sequence[Value], streams: Sequence[str]) -> bool:
    """Whether each of the values is a norm, or another sublayer's result, looked at through what has no weights."""
    for value in values:
        here = value
        while True:
            call = here.call
            if call is not None and call.word.kind == "norm":
                break
            if (call is not None and call.word.sublayer) or here.op == "tap":
                break
            if here.op == "list" or (call is not None and call.word.kind == "depth"):
                if not _reads_norm(here.args, streams):
                    return False
                break
            if call is not None and (
                call.word.kind in ("chance", "function", "shape") or call.word.initial_scale == "same"
            ):
                others = here.args[1 : len(call.streams)]
                if others and not _reads_norm(others, streams):
                    return False
                here = here.args[0]
            elif here.op in ("mul", "div", "neg", "pow"):
                operands = [a for a in here.args if a.kind == "stream"]
                if not operands or not _reads_norm(operands[1:], streams):
                    return False
                here = operands[0]
            elif here.op in SUMS:
                operands = [a for a in here.args if a.kind == "stream"]
                if not operands or not _reads_norm(operands, streams):
                    return False
                break
            elif here.kind != "stream" or here.op == "input" or here.stack:
                break
            elif here.op in ("name", "history") and here.name not in streams:
                break
            else:
                return False
    return True


def line_of(section: Section, place: Place | None) -> int | None:
    """Which line of the section's formula, from 0, a place lies in; None if in none."""
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


def lines_of(section: Section) -> dict[int, int]:
    """Value -> the line of the formula, counted from 1 whether by lines or by `;`, in which it is made."""
    found: dict[int, int] = {}
    for value in section.values:
        index = line_of(section, own_place(value))
        if index is not None:
            found[id(value)] = index + 1
    return found
