"""Names: what they stand for where an expression reads them, and the spelling of what is not built."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import field_names
from .calls import describe, unknown_option
from .definitions import Definition
from .graph import Frame, Section, Stack, Value
from .liveness import Flow
from .messages import FormulaError, unknown
from .model_file import INPUTS, ModelText
from .numbers import FUNCTIONS, as_number, evaluate
from .source import Place, Source
from .syntax import CallNode, Index, Line, Name, Node, walk
from .vocabulary import Vocabulary


@dataclass
class Scope:
    """Where an expression stands: a section, or a definition called in it.

    names    local values (and, in a definition, parameters that are numbers, strings, booleans, definitions)
    visible  how many of the definitions can be called here
    labels   label -> what it stands for; calls: word -> its calls so far
    """

    section: Section
    numbers: Mapping[str, float]
    visible: int
    labels: dict[str, Any]
    names: dict[str, Any] = field(default_factory=dict)
    calls: dict[str, list[Any]] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    definition: Definition | None = None
    places: dict[str, Place] = field(default_factory=dict)


class Names:
    """The state of a check, and the look-up of names in it."""

    def __init__(self, text: ModelText, vocabulary: Vocabulary, output: str) -> None:
        self.text, self.vocabulary = text, vocabulary
        self.used: set[str] = set()
        self.read: set[tuple[str, int, int]] = set()
        self.spelled: set[str] = set()
        self.used_definitions: set[str] = set()
        self.default_output = Source("output", output)
        self.inputs = {*INPUTS, *text.inputs}
        self.numbers: dict[str, int | float] = {}
        self.definitions: list[Definition] = []
        self.resolved: dict[Any, dict[str, Any]] = {}
        self.stacks: list[Stack] = []
        self.current: Stack
        self.model_labels: dict[str, Any] = {}
        self.share_labels: dict[tuple[str, int], Any] = {}
        self.flow = Flow()
        self.stack_text = text.stacks[0]
        self.stack_names: set[str] = set()
        self.streams: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self.entries = 0
        self.pasts: dict[tuple[int, str, str, int], Value] = {}
        self.assigned: set[str] = set()

    @staticmethod
    def key(place: Place) -> tuple[str, int, int]:
        return (place.source.name, place.line, place.column)

    def looker(self, numbers: Mapping[str, float], scope: Scope | None = None) -> Any:
        """What looks up the names of a number's expression."""

        def look(node: Name) -> Any:
            if scope is not None and node.name in scope.names:
                value = scope.names[node.name]
                if isinstance(value, Value) and value.op == "number":
                    self.mark(scope, node.name)
                    return value.number
                if isinstance(value, (int, float, str)):
                    self.mark(scope, node.name)
                    return value
                raise FormulaError("not-a-number", node.place, what=f"`{node.name}`")
            if node.name in numbers:
                self.used.add(node.name)
                return numbers[node.name]
            if node.name == "pi":
                return math.pi
            ours = field_names.read_name(node.name, [*numbers, "pi"])
            raise unknown("unknown-number", node.place, node.name, [*numbers, "pi"], ours)

        return look

    def whole(self, node: Node, numbers: Mapping[str, float], low: int, high: int, scope: Scope | None = None) -> int:
        value = as_number(node, evaluate(node, self.looker(numbers, scope)))
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise FormulaError(
                "not-a-number", node.place, what=f"{value:g} (a whole number from {low} to {high} is expected here; it)"
            )
        return value

    def mark(self, scope: Scope, name: str) -> None:
        if name in scope.places:
            self.read.add(self.key(scope.places[name]))

    def number(self, value: float, node: Node, scope: Scope) -> Value:
        return Value("number", kind="number", number=value, place=node.place, frames=scope.frames)

    def look(self, node: Name, scope: Scope) -> Any:
        """What a name stands for."""
        name = node.name
        if name in scope.names:
            self.mark(scope, name)
            value = scope.names[name]
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return self.number(value, node, scope)
            return value
        if name in scope.numbers:
            self.used.add(name)
            return self.number(scope.numbers[name], node, scope)
        if name == "pi":
            return self.number(math.pi, node, scope)
        if scope.definition is None:
            found = self.flow.now.get(name)
            if found is not None:
                self.read.add(self.key(found.place))
                if found.value.op == "number":
                    return self.number(found.value.number, node, scope)
                return self.carried(name, found, node, scope)
            if name in self.inputs:
                return self.entering(
                    scope.section,
                    "input",
                    name,
                    Value("input", kind="input", name=name, sequence=self.sequence_of(name), place=node.place),
                )
            stack = self.above(scope) if name == "memory" else name
            if stack in self.flow.results:
                return self.result_of(stack, node, scope)
        if any(d.name == name for d in self.definitions[: scope.visible]):
            return next(d for d in reversed(self.definitions[: scope.visible]) if d.name == name)
        known = [*scope.names, *scope.numbers]
        title = f"the definition {scope.definition.name!r}" if scope.definition else scope.section.title
        remedy = "a definition sees its parameters, numbers and the words above it"
        if scope.definition is None:
            known += [*self.flow.now, *self.inputs, *self.stack_names, *self.assigned]
            known += [d.name for d in self.definitions[: scope.visible]]
            remedy = f"set it before this line; a number is added to the file, or given as --{name}"
            if name in self.assigned:
                remedy = "it is set later: give it a first value in `before`, or read it only in layers where it is set"
        known = [k for k in known if k != name]
        ours = field_names.read_name(name, known)
        raise unknown("unset", node.place, name, known, ours, title=title, remedy=remedy)

    def sequence_of(self, name: str) -> str:
        if name in ("types", "targets", "document", "rank", "tokens"):
            return "tokens"
        return self.text.inputs.get(name) or name

    def above(self, scope: Scope) -> str:
        """What `memory` stands for: the stack above this one; in the output, which goes with the last, that above it.
        "" where there is none."""
        stacks = self.stacks[:-1] if scope.section.where == "output" else self.stacks
        return stacks[-1].name if stacks else ""

    def entering(self, section: Section, op: str, name: str, value: Value) -> Value:
        """The value with which a name enters a section; one for all its readers."""
        key = f"{value.stack}.{name}" if value.stack else name
        if key not in section.reads:
            section.reads[key] = value
            section.values.append(value)
        return section.reads[key]

    def carried(self, name: str, found: Any, node: Node, scope: Scope) -> Value:
        entry: Value = found.value
        before = self.flow.carried.setdefault(name, entry)
        if (
            (before.kind, before.width) != (entry.kind, entry.width)
            and before.op != "number"
            and scope.section.where == "layer"
        ):
            raise FormulaError(
                "carried-changes", found.place, name=name, before=describe(before), after=describe(entry)
            )
        return self.entering(
            scope.section,
            "name",
            name,
            Value(
                "name",
                kind=entry.kind,
                width=entry.width,
                sequence=entry.sequence,
                keys=entry.keys,
                name=name,
                place=node.place,
            ),
        )

    def result_of(self, stack: str, node: Node, scope: Scope) -> Value:
        found = self.flow.results[stack]
        self.read.add(self.key(found.place))
        entry: Value = found.value
        return self.entering(
            scope.section,
            "name",
            "x",
            Value(
                "name",
                kind=entry.kind,
                width=entry.width,
                sequence=entry.sequence,
                name="x",
                stack=stack,
                place=node.place,
            ),
        )

    def spell_lines(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self.read.add(self.key(line.place))
            for node in walk(line.value):
                if isinstance(node, CallNode):
                    self.known_word(node, len(self.definitions))
                elif isinstance(node, (Name, Index)):
                    self.spelled.add(node.name)
                    self.used.add(node.name)

    def spell(self, tree: Node, scope: Scope) -> None:
        """Check the words and names of the side of a condition that is not built."""
        for node in walk(tree):
            if isinstance(node, CallNode):
                self.known_word(node, scope.visible)
            elif isinstance(node, (Name, Index)):
                name = node.name
                self.spelled.add(name)
                self.used.add(name)
                known = {*scope.names, *scope.numbers, *self.inputs, *self.stack_names, "memory", "pi"}
                if scope.definition is None:
                    known |= self.assigned | set(self.flow.now)
                else:
                    known |= {line.name for line in scope.definition.lines}
                known |= {d.name for d in self.definitions}
                if name not in known:
                    ours = field_names.read_name(name, known)
                    remedy = "set it before this line"
                    raise unknown("unset", node.place, name, known, ours, title=scope.section.title, remedy=remedy)

    def known_word(self, node: CallNode, visible: int) -> None:
        for definition in reversed(self.definitions[:visible]):
            if definition.name == node.word:
                self.spell_definition(definition)
                return
        record = self.vocabulary.get(node.word)
        if record is None and node.word not in FUNCTIONS:
            self.unknown_word(node, visible)
        if record is not None:
            for option in node.options:
                if option.name not in record.options and option.name not in record.ports and option.name != "share":
                    raise unknown_option(record, node.word, option)
                if isinstance(option.value, Name):
                    self.used_definitions.add(option.value.name)

    def spell_definition(self, definition: Definition) -> None:
        """A definition that is called where nothing is built is used, and so is what its lines read."""
        if definition.name in self.used_definitions:
            return
        self.used_definitions.add(definition.name)
        for tree in (*definition.defaults.values(), *(line.value for line in definition.lines)):
            for node in walk(tree):
                if isinstance(node, CallNode) and not definition.second:
                    self.known_word(node, definition.index)
                elif isinstance(node, Name):
                    self.used.add(node.name)

    def unknown_word(self, node: CallNode, visible: int) -> None:
        said = self.text.extra.get(node.word)
        if said is not None:
            raise FormulaError(
                "outside-word",
                node.head,
                name=node.word,
                package=f"the package {said.package}" if said.package else "outside, and the file names no package",
                remedy=f"name its package: --use {said.package or 'PACKAGE'} (in Python: use=[...])",
            )
        known = [*self.vocabulary, *(d.name for d in self.definitions[:visible]), *FUNCTIONS]
        ours = field_names.word(node.word)
        see = f"\nsee: transformula words{f' {ours.name}' if ours and ours.name in self.vocabulary else ''}"
        raise unknown("unknown-word", node.head, node.word, known, ours, see=see)
