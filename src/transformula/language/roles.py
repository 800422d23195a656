"""Names of parameters: the role of every call, read off its layer's graph.

A label is a role. Without one, a sublayer has its word's name (`cross_attention` over another sequence). Any other call
is `S_input_WORD` if its result goes only into arguments of sublayers (S the first); else `S_output_WORD` on, or times,
the result of a sublayer (the last), `S_sum_WORD` if a sum lies between; else WORD. Words of chance, functions and
factors that are numbers are looked through. Equal roles count on in order of evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any

from .graph import Architecture, Call, Frame, Section, Value
from .messages import FormulaError
from .options import sizes_of

SUM = ("add", "sub")


class Unit:
    """A call, a definition's frame, or plain arithmetic: what roles are given to and read off."""

    def __init__(self, thing: Value | Frame, place: int) -> None:
        self.thing, self.place = thing, place  # the place in order of evaluation
        self.inputs: dict[Unit, None] = {}  # the units that it reads
        self.readers: dict[Unit, None] = {}  # the units that read it
        self.leaves = self.sublayer = False  # `leaves`: its value leaves the section
        self.role = ""
        self.op = thing.op if isinstance(thing, Value) else "frame"
        self.named: Call | Frame | None = thing if isinstance(thing, Frame) else thing.call
        self.label = self.named.label if self.named else ""

    @property
    def word(self) -> str:
        assert self.named is not None
        name = self.named.name
        if isinstance(self.thing, Value) and self.thing.word_kind == "positions":
            streams = self.thing.args[: len(self.thing.called.streams)]
            return f"cross_{name}" if len({s.sequence for s in streams if s.sequence}) > 1 else name
        return name

    @cached_property
    def transparent(self) -> bool:
        if self.named is not None:
            return isinstance(self.named, Call) and self.named.word.transparent
        if isinstance(self.thing, Value) and self.op in ("mul", "div"):
            return any(argument.op == "number" for argument in self.thing.args)
        return self.op in ("neg", "pow", "tap")

    def into(self) -> list[Unit] | None:
        """The sublayers that its result goes into, or None if it also goes elsewhere."""
        ends: list[Unit] = []
        for reader in self.readers if not self.leaves else ():
            further = [reader] if reader.sublayer else reader.into() if reader.transparent else None
            if further is None:
                return None
            ends += further
        return ends or None

    def operands(self) -> list[Unit]:
        """What it stands on, or is multiplied with."""
        units, waiting = list(self.inputs), list(self.readers)
        while waiting:
            reader = waiting.pop()
            if reader.op in ("mul", "div") and not reader.transparent:
                units += [other for other in reader.inputs if other is not self and self not in other.inputs]
            elif reader.transparent:
                waiting += reader.readers
        return units


def owner(value: Value, depth: int) -> Value | Frame:
    """What stands for a value at `depth` of definitions: the definition that it is made in, for a tap its call."""
    if len(value.frames) > depth:
        return value.frames[depth]
    return owner(value.args[0], depth) if value.op == "tap" else value


def units_of(values: Sequence[Value], depth: int, leaving: Sequence[Value]) -> list[Unit]:
    """The units among `values` that stand at `depth` of definitions, linked, in order of evaluation."""
    units: dict[int, Unit] = {}
    for value in values:
        if value.op != "tap" or len(value.frames) > depth:
            thing = owner(value, depth)
            unit = units.get(id(thing)) or units.setdefault(id(thing), Unit(thing, len(units)))
            unit.sublayer |= value.call is not None and value.call.word.sublayer
    for value in values:
        reader = units.get(id(owner(value, depth)))
        opened = (entry for arg in value.args for entry in (arg.args if arg.op == "list" else (arg,)))
        for argument in opened if reader else ():
            source = units.get(id(owner(argument, depth)))
            if reader and source and source is not reader:
                reader.inputs.setdefault(source)
                source.readers.setdefault(reader)
    for value in leaving:
        if id(owner(value, depth)) in units:
            units[id(owner(value, depth))].leaves = True
    return list(units.values())


def last_results(units: Sequence[Unit], through_sums: bool) -> dict[Unit, Unit]:
    """Unit -> the last sublayer whose result it is, looking through transparent units, and through sums if asked."""
    last: dict[Unit, Unit] = {}
    for unit in TopologicalSorter({unit: unit.inputs for unit in units}).static_order():
        if unit.sublayer:
            last[unit] = unit
        elif unit.transparent or (through_sums and unit.op in SUM):
            ends = [last[source] for source in unit.inputs if source in last]
            last |= {unit: max(ends, key=lambda end: end.place)} if ends else {}
    return last


def role_of(unit: Unit, direct: dict[Unit, Unit], summed: dict[Unit, Unit]) -> str:
    """The role of a call that is no sublayer and has no label, before equal ones are counted."""
    into = unit.into()
    if into:
        return f"{min(into, key=lambda u: u.place).role}_input_{unit.word}"
    for way, results in (("output", direct), ("sum", summed)):
        ends = [results[operand] for operand in unit.operands() if operand in results]
        if ends:
            return f"{max(ends, key=lambda u: u.place).role}_{way}_{unit.word}"
    return unit.word


def assign_roles(values: Sequence[Value], depth: int, leaving: Sequence[Value]) -> None:
    """Give every call and every definition at this depth its role, and those inside definitions theirs."""
    units = units_of(values, depth, leaving)
    direct, summed = last_results(units, False), last_results(units, True)
    counts: Counter[str] = Counter()
    named = [unit for unit in units if unit.named is not None]
    for unit in sorted(named, key=lambda unit: not unit.sublayer):  # the others' names are made of the sublayers'
        unit.role = unit.label
        if not unit.label:
            base = unit.word if unit.sublayer else role_of(unit, direct, summed)
            counts[base] += 1
            unit.role = base if counts[base] == 1 else f"{base}_{counts[base]}"
    labels = {unit.label: unit for unit in reversed(named) if unit.label}
    inside: dict[int, list[Value]] = {}
    for value in values:
        if len(value.frames) > depth:
            inside.setdefault(id(value.frames[depth]), []).append(value)
    for unit in named:
        if not unit.label and unit.role in labels:
            raise FormulaError("label-role", labels[unit.role].thing.place, label=unit.role)
    for unit in named:
        assert unit.named is not None
        unit.named.role = unit.role
        if isinstance(unit.named, Frame):
            result = unit.named.result
            assign_roles(inside[id(unit.named)], depth + 1, [result] if result else [])


def built_as(section: Section) -> tuple[Any, ...]:
    """All of a section that roles depend on: its words and what they read, by their places in the section's order."""
    places = {value: n for n, value in enumerate(section.values)}
    frames: dict[int, int] = {}

    def place(value: Value) -> Any:
        return tuple(map(places.get, value.args)) if value.op == "list" else places.get(value)

    def row(value: Value) -> tuple[Any, ...]:
        call, around = value.call, [frames.setdefault(id(frame), len(frames)) for frame in value.frames]
        named = (call.word.name, call.name, call.label) if call is not None else None
        return value.op, id(value.place), named, *around, *map(place, value.args)

    return (*map(row, section.values), *map(place, section.leaves.values()))


def copy_roles(given: Sequence[Value], values: Sequence[Value]) -> None:
    """Give the calls and definitions of a section the roles of one that is built alike."""
    for known, value in zip(given, values, strict=True):
        if known.call is not None and value.call is not None:
            value.call.role = known.call.role
        for frame, other in zip(known.frames, value.frames, strict=True):
            other.role = frame.role


def name_modules(architecture: Architecture) -> None:
    """Fill `role` and `path` of every call of the model, those inside templates included. Raises FormulaError."""
    homes: dict[tuple[str, int], str] = {}
    firsts: dict[str, tuple[Value, dict[str, Any]]] = {}
    shares = {stack.name: stack.share for stack in architecture.stacks}
    known: dict[tuple[Any, ...], Section] = {}  # equal layers have equal roles
    for section in architecture.sections():
        first = known.setdefault(built_as(section), section)
        if first is section:
            assign_roles(section.values, 0, [*section.leaves.values()])
        else:
            copy_roles(first.values, section.values)
        share, number = shares.get(section.stack), section.number
        if share is not None and section.where == "layer":
            number = share[number - 1]
        for value in section.calls():
            value.called.path = path_of(section, number, value, homes)
            for role, template in value.called.inner.items():  # their paths start at the module they stand in
                assign_roles(template.values, 0, [template.result])
                for call in (inner for inner in template.values if inner.op == "call"):
                    call.called.path = role if template.alias else f"{role}.{roles(call)}"
            check_same(value, firsts)


def roles(value: Value) -> str:
    return ".".join([*(frame.role for frame in value.frames), value.called.role])


def outermost(value: Value) -> Frame | Call:
    """The call as the section has it: of the word, or of the definition around it."""
    return value.frames[0] if value.frames else value.called


def shared(value: Value) -> tuple[Frame | Call, str] | None:
    """The innermost of a call and the definitions around it that is shared by a number, and the path of the call's
    module from there on; None where none is."""
    things: list[Frame | Call] = [*value.frames, value.called]
    for place in range(len(things) - 1, -1, -1):
        if things[place].share is not None:
            return things[place], ".".join(one.role for one in things[place:])
    return None


def share_of(value: Value) -> int | None:
    one = shared(value)
    return None if one is None else one[0].share


def path_of(section: Section, number: int, value: Value, homes: dict[tuple[str, int], str]) -> str:
    """Where the module of a call lives; `homes`: label and number of what is shared -> the first stack with it."""
    outer, path = outermost(value), roles(value)
    prefix = f"{section.stack}." if section.stack else ""
    if one := shared(value):
        thing, path = one
        assert thing.share is not None
        return f"{homes.setdefault((thing.label, thing.share), prefix)}layers.{thing.share}.{path}"
    if section.where == "layer":
        return f"{prefix}layers.{number}.{path}"
    return path if outer.label else f"{prefix}{section.where}.{path}"


def check_same(value: Value, firsts: dict[str, tuple[Value, dict[str, Any]]]) -> None:
    """One path is one module, of one word and of equal sizes. `firsts`: path -> the first call, and its sizes."""
    call, sizes = value.called, sizes_of(value.called, value.place)
    first, known = firsts.setdefault(call.path, (value, sizes))
    if first is value:
        return
    keys = [(v.called.word.family or v.called.word.name, share_of(v)) for v in (first, value)]
    if keys[0] != keys[1]:
        words = [f"{word}{'' if n is None else f' with share={n}'}" for word, n in keys]
        label = outermost(value).label or call.path
        raise FormulaError("label-twice", value.place, label=label, first=words[0], second=words[1])
    for name, size in sizes.items():
        other = known.get(name, size)
        if other != size and size and other:
            what, label = f"{name} of size", call.label or call.path
            raise FormulaError("label-differs", value.place, label=label, name=what, first=other, second=size)
