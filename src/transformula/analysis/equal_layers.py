"""Which layers of a stack are the same graph from the same text, so that a deep stack is looked at once."""

from __future__ import annotations

from ..language.graph import (
    Call,
    Frame,
    Section,
    Stack,
    Template,
    Value,
)

MOST_KINDS = 8
"""A layer is held against the first of each of so many kinds, the latest first."""


def first_of_kind(stack: Stack) -> list[int]:
    """For each layer, in order, the number of the first that is the same but for the names of its parameters."""
    kinds: list[Section] = []
    found: list[int] = []
    for section in stack.layers:
        kind = next((k for k in reversed(kinds[-MOST_KINDS:]) if _Pair(k, section).same()), None)
        if kind is None:
            kinds.append(section)
            kind = section
        found.append(kind.number)
    return found


class _Pair:
    """Two sections, held against each other value by value, in order of evaluation."""

    def __init__(self, first: Section, second: Section) -> None:
        self.first, self.second = first, second
        self.partner: dict[int, Value] = {}

    def same(self) -> bool:
        a, b = self.first, self.second
        if a.formula != b.formula or len(a.values) != len(b.values) or len(a.lines) != len(b.lines):
            return False
        if any(a.__dict__[key].keys() != b.__dict__[key].keys() for key in ("reads", "leaves", "asked")):
            return False
        if a.keeps != b.keeps or not self.values_alike(a.values, b.values):
            return False
        pairs = [(line, other) for (line, *_), (other, *_) in zip(a.lines, b.lines, strict=True)]
        values = [(a.leaves[name], b.leaves[name]) for name in a.leaves]
        values += [(a.asked[name], b.asked[name]) for name in a.asked]
        for (_, _, value), (_, _, other) in zip(a.lines, b.lines, strict=True):
            if (value is None) != (other is None):
                return False
            if value is not None and other is not None:
                values.append((value, other))
        return all(p is q for p, q in pairs) and all(self.alike(p, q) for p, q in values)

    def values_alike(self, first: list[Value], second: list[Value]) -> bool:
        for one, other in zip(first, second, strict=True):
            if not self.made_alike(one, other):
                return False
            self.partner[id(other)] = one
        return True

    def alike(self, one: Value, other: Value) -> bool:
        """Whether two arguments are partners, or (numbers and lists stand in no order) written alike."""
        if id(other) in self.partner:
            return self.partner[id(other)] is one
        return one.op in ("number", "list", "argument") and self.made_alike(one, other)

    def made_alike(self, one: Value, other: Value) -> bool:
        if one.op != other.op or one.place is not other.place or one.width != other.width or one.kind != other.kind:
            return False
        if (one.name, one.number, one.stack, one.sequence) != (other.name, other.number, other.stack, other.sequence):
            return False
        if len(one.args) != len(other.args) or len(one.frames) != len(other.frames) or one.keys != other.keys:
            return False
        if not all(map(self.alike, one.args, other.args)) or not all(map(self.frames_alike, one.frames, other.frames)):
            return False
        if one.call is None or other.call is None:
            return one.call is other.call
        return self.calls_alike(one.call, other.call)

    @staticmethod
    def frames_alike(one: Frame, other: Frame) -> bool:
        return one.share is None and other.share is None and (one.name, one.role) == (other.name, other.role)

    def calls_alike(self, one: Call, other: Call) -> bool:
        if one.share is not None or other.share is not None:
            return False
        same = one.word is other.word and one.options == other.options and one.role == other.role
        same = same and (one.streams, one.ports, one.given) == (other.streams, other.ports, other.given)
        if not same or one.inner.keys() != other.inner.keys():
            return False
        return all(self.templates_alike(one.inner[role], other.inner[role]) for role in one.inner)

    @staticmethod
    def templates_alike(one: Template, other: Template) -> bool:
        inside = [
            [(v.op, v.name, v.number, v.width, v.call and (v.call.word.name, v.call.options)) for v in t.values]
            for t in (one, other)
        ]
        return inside[0] == inside[1]
