"""Which layers of a stack are the same graph from the same text, so that a deep stack is looked at once."""

from __future__ import annotations

from typing import Any

from ..language.graph import Call, Section, Stack, Template, Value

MOST_KINDS = 8
"""A layer is held against the first of each of so many kinds, the latest first."""


def first_of_kind(stack: Stack) -> list[int]:
    """For each layer, in order, the number of the first that is the same but for the names of its parameters."""
    kinds: list[tuple[int, list[Any]]] = []
    numbers: list[int] = []
    for section in stack.layers:
        signature = _signature(section)
        first = next((number for number, known in reversed(kinds[-MOST_KINDS:]) if known == signature), None)
        if first is None:
            kinds.append((section.number, signature))
        numbers.append(first or section.number)
    return numbers


def _signature(section: Section) -> list[Any]:
    """All of a section but for the names of its parameters; other values are meant by their places in its order. What
    is shared with some layers only equals nothing."""
    places: dict[int, int] = {}

    def of(value: Value) -> Any:
        if id(value) in places:
            return places[id(value)]
        return made(value) if value.op in ("number", "list", "argument") else object()

    def made(value: Value) -> tuple[Any, ...]:
        frames = [(f.name, f.role) if f.share is None else object() for f in value.frames]
        return (
            value.op, id(value.place), value.width, value.kind, value.name, value.number, value.stack, value.sequence,
            value.keys, [of(a) for a in value.args], frames, value.call and _call(value.call),
        )  # fmt: skip

    values = []
    for n, value in enumerate(section.values):
        values.append(made(value))
        places[id(value)] = n
    named = [sorted((name, of(v)) for name, v in names.items()) for names in (section.leaves, section.asked)]
    lines = [(id(place), value and of(value)) for place, _, value in section.lines]
    return [section.formula, values, sorted(section.reads), named, section.keeps, lines]


def _call(call: Call) -> Any:
    if call.share is not None:
        return object()
    inner = {role: _template(template) for role, template in call.inner.items()}
    return id(call.word), call.options, call.role, call.streams, call.ports, call.given, inner


def _template(template: Template) -> list[Any]:
    return [(v.op, v.name, v.number, v.width, v.call and (v.call.word.name, v.call.options)) for v in template.values]
