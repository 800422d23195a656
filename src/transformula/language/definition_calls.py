"""Calls of definitions: opened into the graph, or, of a definition that only renames a word, passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .context import Scope
from .definitions import Definition
from .expressions import Expressions
from .graph import Frame, Value, describe
from .labels import Labels, take_share
from .messages import FormulaError, unknown
from .numbers import FUNCTIONS
from .source import Place
from .syntax import CallNode, Flag, Name, Text

MOST_FRAMES = 50
"""Definitions that may be called one inside the other."""


class Caller(Protocol):
    """Evaluates a call; see `Calls.call`."""

    def __call__(self, node: CallNode, scope: Scope, name: str = "", share: int | None = None) -> Any: ...


class DefinitionCalls:
    """Evaluates calls of definitions."""

    def __init__(self, expressions: Expressions, labels: Labels, call: Caller) -> None:
        self.expressions, self.labels, self.pass_on = expressions, labels, call
        self.names, self.context = expressions.names, expressions.names.context

    def call(
        self,
        definition: Definition,
        name: str,
        node: CallNode,
        items: Sequence[Any],
        options: dict[str, tuple[Any, Place]],
        scope: Scope,
    ) -> Any:
        """The value of a call. `name`: the definition's own, or that of one that only renames it."""
        share = take_share(node.word, node, options)
        names = bound(definition, node, items, options)
        body = Scope(scope.section, scope.stack, scope.numbers, definition.index, {}, names, definition=definition)
        for key, default in definition.defaults.items():
            if key not in names:
                names[key] = self.default(default, body)
        alias = definition.alias
        if alias is None:
            return self.opened(definition, node, share, body, scope)
        if alias.word not in FUNCTIONS and self.context.definition(alias.word, definition.index) is None:
            self.expressions.spelling.record(alias, definition.index)  # an unknown word is shown where it is written
        self.names.reads.line(definition.lines[0].place)
        body.frames, body.labels, body.calls = scope.frames, scope.labels, scope.calls
        renamed = CallNode(node.place, alias.word, node.label, alias.items, alias.options, node.head)
        return self.pass_on(renamed, body, name, share)

    def default(self, node: Any, body: Scope) -> Any:
        """What a parameter stands for that is not given: a string, a flag, a definition above, a number."""
        match node:
            case Text(value=value) | Flag(value=value):
                return value
            case Name(name=name):
                definition = self.context.definition(name, body.visible)
                if definition is not None:
                    self.names.reads.definitions.add(name)
                    return definition
        return self.names.evaluate(node, body.numbers, body)

    def opened(self, definition: Definition, node: CallNode, share: int | None, body: Scope, scope: Scope) -> Value:
        """The result of the definition's lines, evaluated here under labels of their own."""
        _, earlier = self.labels.find(node, scope, share, definition.name)
        frame = Frame(definition.name, node.label, node.place, body.names, share=share)
        if earlier is not None:
            frame.labels = earlier.labels
        self.labels.set(node, scope, share, definition.name, frame)
        if len(scope.frames) >= MOST_FRAMES:
            raise FormulaError("too-deep", node.place)
        body.frames, body.labels = (*scope.frames, frame), frame.labels
        result: Any = None
        for line in definition.lines:
            if line.name in definition.defaults or line.name in scope.numbers:
                raise FormulaError("two-things", line.target, name=line.name, other="a number here")
            value = self.expressions.assign(line, body)
            result = value if value is not None else body.names.get(line.name)
        if not isinstance(result, Value):
            raise FormulaError("wrong-kind", definition.lines[-1].place, word="a definition", what=describe(result))
        self.names.reads.line(definition.lines[-1].place)
        frame.result = result
        scope.called(node, definition.name, frame)
        return result


def bound(
    definition: Definition, node: CallNode, items: Sequence[Any], options: Mapping[str, tuple[Any, Place]]
) -> dict[str, Any]:
    """The parameters that a call gives, by name. Raises FormulaError."""
    name, parameters, defaults = definition.name, definition.parameters, definition.defaults
    if not len(parameters) <= len(items) <= len(parameters) + len(defaults):
        expected = f"({', '.join([*parameters, *(f'{key}=' for key in defaults)])})"
        given, equation = ", ".join(map(describe, items)) or "nothing", f"{name}{expected}"
        raise FormulaError("argument-count", node.place, word=name, expected=expected, given=given, equation=equation)
    names: dict[str, Any] = dict(zip(parameters, items, strict=False))
    for key, item in zip(defaults, items[len(parameters) :], strict=False):
        names[key] = item.number if isinstance(item, Value) and item.op == "number" else item
        if isinstance(names[key], Value):
            what = "a number, a string, True, False or a definition"
            raise FormulaError("definition-value", node.place, name=f"{name}({key}=)", what=what)
    for key, (value, place) in options.items():
        if key not in defaults:
            raise unknown("unknown-option", place, key, defaults, word=name)
        if key in names:
            raise FormulaError("option-twice", place, word=name, name=key)
        names[key] = value
    return names
