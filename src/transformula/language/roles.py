"""Names of parameters: the role of every call, read off its layer's graph.

A label is a role. Without one, a sublayer has its word's name (`cross_attention` over another sequence). Any other call
is `S_input_WORD` if its result goes only into arguments of sublayers (S the first); else `S_output_WORD` on, or times,
the result of a sublayer (the last), `S_sum_WORD` if a sum lies between; else WORD. Words of chance, functions and
factors that are numbers are looked through. Equal roles count on in order of evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import Architecture, Call, Frame, Section, Value
from .messages import FormulaError
from .options import sizes_of

SUM = ("add", "sub")


class Unit:
    """A call, a definition's frame, or plain arithmetic: what roles are given to and read off."""

    def __init__(self, thing: Value | Frame) -> None:
        self.thing = thing
        self.inputs: list[Unit] = []
        self.readers: list[Unit] = []
        self.leaves = False
        self.role = ""
        self.sublayer = False

    @property
    def frame(self) -> Frame | None:
        return self.thing if isinstance(self.thing, Frame) else None

    @property
    def call(self) -> Call | None:
        return self.thing.call if isinstance(self.thing, Value) else None

    @property
    def named(self) -> bool:
        """Whether the unit has a role at all."""
        return self.frame is not None or self.call is not None

    @property
    def label(self) -> str:
        return self.thing.label if isinstance(self.thing, Frame) else (self.call.label if self.call else "")

    @property
    def word(self) -> str:
        if isinstance(self.thing, Frame):
            return self.thing.name
        call = self.call
        assert call is not None
        if call.word.sublayer and len(self.thing.args) > 1 and call.word.kind == "positions":
            sequences = {a.sequence for a in self.thing.args[: len(call.streams)] if a.sequence}
            if len(sequences) > 1:
                return f"cross_{call.name}"
        return call.name

    @property
    def transparent(self) -> bool:
        if isinstance(self.thing, Frame):
            return False
        if self.thing.call is not None:
            return self.thing.call.word.transparent
        if self.thing.op in ("mul", "div"):
            return any(a.op == "number" for a in self.thing.args)
        return self.thing.op in ("neg", "pow", "tap")

    @property
    def sum(self) -> bool:
        return isinstance(self.thing, Value) and self.thing.op in SUM


def units_of(values: Sequence[Value], depth: int, leaving: Sequence[Value]) -> list[Unit]:
    """The units among `values` that stand at `depth` of definitions, linked, in order of evaluation."""
    units: dict[int, Unit] = {}
    order: list[Unit] = []

    def unit(value: Value) -> Unit | None:
        if value.op == "tap" and len(value.frames) == depth:
            return units.get(id(value.args[0])) or (unit(value.args[0]))
        thing: Value | Frame = value.frames[depth] if len(value.frames) > depth else value
        if id(thing) not in units:
            return None
        return units[id(thing)]

    for value in values:
        thing = value.frames[depth] if len(value.frames) > depth else value
        if value.op == "tap" and thing is value:
            continue
        if id(thing) not in units:
            units[id(thing)] = Unit(thing)
            order.append(units[id(thing)])
        if value.call is not None:
            units[id(thing)].sublayer |= value.call.word.sublayer
    for value in values:
        reader = unit(value)
        for argument in _opened(value.args):
            source = unit(argument)
            if reader is not None and source is not None and source is not reader:
                if source not in reader.inputs:
                    reader.inputs.append(source)
                if reader not in source.readers:
                    source.readers.append(reader)
    for value in leaving:
        source = unit(value)
        if source is not None:
            source.leaves = True
    return order


def _opened(values: Sequence[Value]) -> list[Value]:
    return [v for value in values for v in (_opened(value.args) if value.op == "list" else [value])]


def _into(unit: Unit) -> list[Unit] | None:
    """The sublayers that the unit's result goes into, or None if it also goes elsewhere."""
    if unit.leaves:
        return None
    found: list[Unit] = []
    for reader in unit.readers:
        if reader.sublayer:
            found.append(reader)
        elif reader.transparent:
            further = _into(reader)
            if further is None:
                return None
            found += further
        else:
            return None
    return found or None


def _results(unit: Unit, through_sums: bool) -> list[Unit]:
    """The sublayers whose result `unit` is, looking through transparent units, and through sums if asked."""
    found, waiting, seen = [], [unit], set()
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        if here.sublayer:
            found.append(here)
        elif here.transparent or (through_sums and here.sum):
            waiting += here.inputs
    return found


def _last_results(units: Sequence[Unit], through_sums: bool) -> dict[int, Unit]:
    """Unit -> the last sublayer whose result it is, in order of evaluation; see `_results`. Units without are left
    out."""
    found: dict[int, Unit] = {}
    place = {id(unit): n for n, unit in enumerate(units)}
    for unit in units:
        if unit.sublayer:
            found[id(unit)] = unit
        elif unit.transparent or (through_sums and unit.sum):
            early = all(place[id(source)] < place[id(unit)] for source in unit.inputs)
            # a definition may stand before what is given to it: then the way is looked through again
            ends = [found[id(s)] for s in unit.inputs if id(s) in found] if early else _results(unit, through_sums)
            if ends:
                found[id(unit)] = max(ends, key=lambda end: place[id(end)])
    return found


def _operands(unit: Unit) -> list[Unit]:
    """What a unit stands on, or is multiplied with."""
    found = list(unit.inputs)
    waiting = list(unit.readers)
    while waiting:
        reader = waiting.pop()
        if isinstance(reader.thing, Value) and reader.thing.op in ("mul", "div") and not reader.transparent:
            found += [other for other in reader.inputs if other is not unit and unit not in other.inputs]
        elif reader.transparent and isinstance(reader.thing, Value):
            waiting += reader.readers
    return found


def assign_roles(values: Sequence[Value], depth: int, leaving: Sequence[Value]) -> list[Unit]:
    """Give every unit at this depth its role, and those inside definitions theirs."""
    units = units_of(values, depth, leaving)
    place = {id(u): i for i, u in enumerate(units)}
    automatic: dict[str, int] = {}
    labels = {u.label for u in units if u.label}

    def counted(base: str) -> str:
        automatic[base] = automatic.get(base, 0) + 1
        return base if automatic[base] == 1 else f"{base}_{automatic[base]}"

    direct_of, summed_of = _last_results(units, False), _last_results(units, True)
    # sublayers first: the others' names are made of theirs
    for unit in units:
        if unit.named and unit.sublayer:
            unit.role = unit.label or counted(unit.word)
    for unit in units:
        if not unit.named or unit.sublayer:
            continue
        if unit.label:
            unit.role = unit.label
            continue
        base = unit.word
        into = _into(unit)
        if into:
            base = f"{min(into, key=lambda u: place[id(u)]).role}_input_{unit.word}"
        else:
            operands = _operands(unit)
            direct = [direct_of[id(o)] for o in operands if id(o) in direct_of]
            summed = [summed_of[id(o)] for o in operands if id(o) in summed_of]
            if direct:
                base = f"{max(direct, key=lambda u: place[id(u)]).role}_output_{unit.word}"
            elif summed:
                base = f"{max(summed, key=lambda u: place[id(u)]).role}_sum_{unit.word}"
        unit.role = counted(base)
    for unit in units:
        if unit.named and not unit.label and unit.role in labels:
            raise FormulaError(
                "label-role", next(u for u in units if u.label == unit.role).thing.place, label=unit.role
            )
    inside: dict[int, list[Value]] = {}
    for value in values:
        if len(value.frames) > depth:
            inside.setdefault(id(value.frames[depth]), []).append(value)
    for unit in units:
        if unit.frame is not None:
            unit.frame.role = unit.role
            assign_roles(inside[id(unit.frame)], depth + 1, [unit.frame.result] if unit.frame.result else [])
        elif unit.call is not None:
            unit.call.role = unit.role
    return units


def name_modules(architecture: Architecture) -> None:
    """Fill `role` and `path` of every call of the model, those inside templates included."""
    weights: dict[str, tuple[Call, dict[str, Any]]] = {}
    homes: dict[tuple[str, int], str] = {}
    owners: dict[str, Value] = {}
    for stack in [*architecture.stacks, None]:
        for section in stack.sections() if stack else [architecture.output]:
            values = section.values
            needed = {id(v) for v in section.leaves.values()}
            assign_roles(values, 0, [v for v in values if id(v) in needed])
            number = section.number
            if stack is not None and stack.share is not None and section.where == "layer":
                number = stack.share[section.number - 1]
            for value in section.calls():
                assert value.call is not None
                value.call.path = path_of(section, number, value, homes)
                check_owner(value, owners)
                name_inner(value.call)
                check_weights(value, weights)


def path_of(section: Section, number: int, value: Value, homes: dict[tuple[str, int], str]) -> str:
    """Where the module of a call lives in the model; `homes`: the stacks that have what is shared, by label and number
    (the first that calls it)."""
    call = value.call
    assert call is not None
    parts = [*(f.role for f in value.frames), call.role]
    outer: Frame | Call = value.frames[0] if value.frames else call
    prefix = f"{section.stack}." if section.stack else ""
    if outer.share is not None:
        prefix = homes.setdefault((outer.label, outer.share), prefix)
        return f"{prefix}layers.{outer.share}." + ".".join(parts)
    if section.where == "layer":
        return f"{prefix}layers.{number}." + ".".join(parts)
    if outer.label:
        return ".".join(parts)
    return f"{prefix if section.where != 'output' else ''}{section.where}." + ".".join(parts)


def name_inner(call: Call) -> None:
    """Paths of the calls of a template, relative to the module they stand in."""
    for role, template in call.inner.items():
        assign_roles(template.values, 0, [template.result])
        for value in template.values:
            if value.call is not None:
                parts = [f.role for f in value.frames] + [value.call.role]
                value.call.path = role if template.alias else ".".join([role, *parts])


def check_owner(value: Value, owners: dict[str, Value]) -> None:
    """One path is one word, and shared by a number or a layer's own: both have the same names."""

    def owner(value: Value) -> tuple[str, Any]:
        call = value.call
        assert call is not None
        outer: Frame | Call = value.frames[0] if value.frames else call
        return call.word.family or call.word.name, outer.share

    assert value.call is not None
    first = owners.setdefault(value.call.path, value)
    if first is not value and owner(first) != owner(value):
        said = [
            f"{word}{'' if share is None else f' with share={share}'}" for word, share in map(owner, (first, value))
        ]
        label = value.frames[0].label if value.frames else value.call.label
        raise FormulaError("label-twice", value.place, label=label or value.call.path, first=said[0], second=said[1])


def check_weights(value: Value, weights: dict[str, tuple[Call, dict[str, Any]]]) -> None:
    """One path is one module: its parameters have the same sizes wherever it is called."""
    call = value.call
    assert call is not None
    sizes = sizes_of(call, value.place)
    first = weights.setdefault(call.path, (call, sizes))
    for name, size in sizes.items():
        other = first[1].get(name, size)
        if other != size and size and other:
            raise FormulaError(
                "label-differs", value.place, label=call.label or call.path, name=f"{name} of", first=other, second=size
            )
