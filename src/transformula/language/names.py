"""What a name stands for, where an expression reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import field_names
from .context import Context, Scope
from .flow import Setting
from .graph import Section, Value, describe
from .messages import FormulaError, unknown
from .numbers import evaluate
from .source import Place
from .syntax import Name, Node


class Names:
    """Looks names up in a context, and notes that they have been read."""

    def __init__(self, context: Context) -> None:
        self.context, self.reads, self.flow = context, context.reads, context.flow

    def look(self, node: Name, scope: Scope) -> Any:
        """What a name stands for: a Value, or in a definition what its parameter was given. Raises FormulaError."""
        name = node.name
        if name in scope.names:
            self.mark(scope, name)
            value = scope.names[name]
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return scope.number(value, node.place)
            return value
        if name in scope.numbers:
            self.reads.numbers.add(name)
            return scope.number(scope.numbers[name], node.place)
        if name == "pi":
            return scope.number(math.pi, node.place)
        value = self.from_outside(node, scope) if scope.definition is None else None
        if value is None:
            value = self.context.definition(name, scope.visible)
        if value is None:
            raise self.unset(node, scope)
        return value

    def mark(self, scope: Scope, name: str) -> None:
        """Note that a local name has been read."""
        if name in scope.places:
            self.reads.line(scope.places[name])

    def from_outside(self, node: Name, scope: Scope) -> Value | None:
        """The value with which a name enters a formula: carried, given by the task, or a stack's result."""
        setting = self.flow.now.get(node.name)
        if setting is not None:
            self.reads.line(setting.place)
            if setting.value.op == "number":
                return scope.number(setting.value.number, node.place)
            return self.carried(node, setting, scope)
        if node.name in self.context.inputs:
            return self.input(node.name, scope.section, node.place)
        stack = self.above(scope) if node.name == "memory" else node.name
        setting = self.flow.results.get(stack)
        if setting is None:
            return None
        self.reads.line(setting.place)
        return entering(scope.section, reading(setting.value, "name", "x", node.place, stack=stack))

    def carried(self, node: Name, setting: Setting, scope: Scope) -> Value:
        """A name's value from before this section. Raises FormulaError where its kind or width has changed."""
        first, value = self.flow.carried.setdefault(node.name, setting.value), setting.value
        changed = (first.kind, first.width) != (value.kind, value.width) and first.op != "number"
        if changed and scope.section.where == "layer":
            before, after = describe(first), describe(value)
            raise FormulaError("carried-changes", setting.place, name=node.name, before=before, after=after)
        return entering(scope.section, reading(value, "name", node.name, node.place))

    def input(self, name: str, section: Section, place: Place) -> Value:
        """What the task gives under a name."""
        sequence = self.context.sequence_of(name)
        return entering(section, Value("input", kind="input", name=name, sequence=sequence, place=place))

    def above(self, scope: Scope) -> str:
        """What `memory` stands for: the stack above this one; in the output, which goes with the last, that above it.
        "" where there is none."""
        stacks = self.context.stacks
        above = stacks[:-1] if scope.section.where == "output" else stacks
        return above[-1].name if above else ""

    def unset(self, node: Name, scope: Scope) -> FormulaError:
        """The error for a name that has no value."""
        name, known = node.name, [*scope.names, *scope.numbers]
        remedy = "a definition sees its parameters, numbers and the words above it"
        if scope.definition is None:
            assigned = self.flow.assigned
            known += [*self.flow.now, *self.context.inputs, *self.context.stack_names(), *assigned]
            known += [d.name for d in self.context.definitions[: scope.visible]]
            remedy = f"set it before this line; a number is added to the file, or given as --{name}"
            if name in assigned:
                remedy = "it is set later: give it a first value in `before`, or read it only in layers where it is set"
        known = [k for k in known if k != name]
        ours = field_names.read_name(name, known)
        return unknown("unset", node.place, name, known, ours, title=scope.title, remedy=remedy)

    # Numbers.

    def evaluate(self, node: Node, numbers: Mapping[str, float], scope: Scope | None = None) -> Any:
        """The number, or the outcome of the test, that an expression stands for. Raises FormulaError."""

        def look(node: Name) -> Any:
            if scope is not None and node.name in scope.names:
                return self.local_number(node, scope)
            if node.name in numbers:
                self.reads.numbers.add(node.name)
                return numbers[node.name]
            if node.name == "pi":
                return math.pi
            known = [*numbers, "pi"]
            raise unknown("unknown-number", node.place, node.name, known, field_names.read_name(node.name, known))

        return evaluate(node, look)

    def local_number(self, node: Name, scope: Scope) -> Any:
        """The number, string or flag that a local name holds. Raises FormulaError."""
        value = scope.names[node.name]
        value = value.number if isinstance(value, Value) and value.op == "number" else value
        if not isinstance(value, (int, float, str)):
            raise FormulaError("not-a-number", node.place, what=f"`{node.name}`")
        self.mark(scope, node.name)
        return value


def reading(value: Value, op: str, name: str, place: Place, number: int = 0, stack: str = "") -> Value:
    """A value of another section, read in this one."""
    kind, width, sequence, keys = value.kind, value.width, value.sequence, value.keys
    return Value(op, (), kind, width, sequence, name, number, place=place, stack=stack, keys=keys)


def entering(section: Section, value: Value) -> Value:
    """The value with which a name enters a section: one for all that read it."""
    key = f"{value.stack}.{value.name}" if value.stack else value.name
    if key not in section.reads:
        section.reads[key] = value
        section.values.append(value)
    return section.reads[key]
