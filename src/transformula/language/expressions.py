"""Expressions: a tree becomes values of the graph. Calls are evaluated by the function that is handed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arithmetic import combined, negative
from .context import Scope
from .definitions import Definition
from .graph import Value, describe
from .history import History
from .messages import FormulaError
from .names import Names
from .numbers import fold
from .rewriting import spine
from .source import Place
from .spelling import SpellingCheck
from .syntax import Binary, CallNode, Choice, Flag, Index, Line, Name, Negative, Node, Number, Tap, Text
from .taps import tap


class Expressions:
    """Evaluates expressions.

    call  evaluates a call (see `calls.py`)
    """

    def __init__(self, names: Names, spelling: SpellingCheck, call: Callable[[CallNode, Scope], Any]) -> None:
        self.names, self.spelling, self.call = names, spelling, call
        self.history = History(names)

    def assign(self, line: Line, scope: Scope) -> Value | None:
        """Evaluate a line, and give the value its name; None for `v = v`, which sets nothing."""
        node = line.value
        while isinstance(node, Choice):
            node = self.chosen(node, scope)
        if isinstance(node, Name) and node.name == line.name and line.name not in scope.names:
            self.names.look(node, scope)
            self.names.reads.line(line.place)
            return None
        value: Value = self.value(node, scope)
        if isinstance(value, Value) and value.kind == "list":
            raise FormulaError("list-here", node.place)
        scope.names[line.name], scope.places[line.name] = value, line.place
        return value

    def chosen(self, node: Choice, scope: Scope) -> Node:
        """The side of a condition that is built; the other is checked for its spelling."""
        test = self.names.evaluate(node.test, scope.numbers, scope)
        self.spelling.side(node.other if test else node.then, scope)
        return node.then if test else node.other

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of an expression: a Value, or in definitions what a parameter stands for. Raises FormulaError."""
        match node:
            case Number(value=value):
                return scope.number(value, node.place)
            case Name():
                value = self.names.look(node, scope)
                if isinstance(value, (Definition, str, bool)):
                    raise FormulaError("wrong-kind", node.place, word="an expression", what=describe(value))
                return value
            case Negative() | Binary():
                return self.arithmetic(node, scope)
            case Choice():
                return self.value(self.chosen(node, scope), scope)
            case Index():
                return self.history.value(node, scope)
            case Tap():
                return tap(node, self.names.context, scope)
            case CallNode():
                return self.call(node, scope)
        raise FormulaError("not-a-number", node.place, what=f"`{node.place.text}`")

    def arithmetic(self, node: Negative | Binary, scope: Scope) -> Value:
        """The value of a sum, a product, a power; a number where all of it is numbers."""
        if isinstance(node, Negative):
            inner = self.operand(node.operand, scope)
            if inner.op == "number":
                return scope.number(fold("-", 0, inner.number, node.place), node.place)
            return scope.add(negative(node, inner))
        first, chain = spine(node)
        result = self.operand(first, scope)
        for part in chain:
            left, right = result, self.operand(part.right, scope)
            if left.op == "number" and right.op == "number":
                result = scope.number(fold(part.operator, left.number, right.number, part.place), part.place)
                continue
            made = combined(part, left, right)
            if not isinstance(made, Value):
                result = scope.number(made, part.place)
            else:
                result = made if made is left or made is right else scope.add(made)
        return result

    def operand(self, node: Node, scope: Scope) -> Value:
        """The value of a part of an expression: no list, no input, no definition."""
        value = self.value(node, scope)
        if not isinstance(value, Value):
            raise FormulaError("wrong-kind", node.place, word="an expression", what=describe(value))
        if value.kind == "list":
            raise FormulaError("list-here", node.place)
        if value.kind == "input":
            raise FormulaError("not-an-input", node.place, word="an expression", what=f"{value.name!r}")
        return value

    def options(self, node: CallNode, scope: Scope) -> dict[str, tuple[Any, Place]]:
        """The options that a call writes, evaluated: numbers, strings, flags, definitions, streams for ports."""
        options: dict[str, tuple[Any, Place]] = {}
        for option in node.options:
            if option.name in options:
                raise FormulaError("option-twice", option.place, word=node.word, name=option.name)
            value: Any
            match option.value:
                case Text(value=text):
                    value = text
                case Flag(value=flag):
                    value = flag
                case Name():
                    value = self.names.look(option.value, scope)
                    if isinstance(value, Definition):
                        self.names.reads.definitions.add(value.name)
                case _:
                    value = self.value(option.value, scope)
            if isinstance(value, Value) and value.op == "number":
                value = value.number
            options[option.name] = (value, option.value.place)
        return options
