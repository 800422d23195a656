"""Expressions: a tree becomes values of the graph. Calls are evaluated by the function that is handed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import Scope
from .definitions import Definition
from .graph import OPERATIONS, Value, describe
from .messages import FormulaError
from .names import Names
from .numbers import fold, neutral
from .rewriting import spine
from .source import Place
from .spelling import SpellingCheck
from .syntax import Binary, CallNode, Choice, Flag, Index, Line, Name, Negative, Node, Number, Tap, Text

BY_OPERATOR = {operator: op for op, operator in OPERATIONS.items() if op != "neg"}


class Expressions:
    """Evaluates expressions.

    call  evaluates a call (see `calls.py`)
    """

    def __init__(self, names: Names, spelling: SpellingCheck, call: Callable[[CallNode, Scope], Any]) -> None:
        self.names, self.spelling, self.call = names, spelling, call

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
        self.spelling.tree(node.other if test else node.then, scope)
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
                return self.names.history(node, scope)
            case Tap():
                return self.names.tap(node, scope)
            case CallNode():
                return self.call(node, scope)
        raise FormulaError("not-a-number", node.place, what=f"`{node.place.text}`")

    def arithmetic(self, node: Negative | Binary, scope: Scope) -> Value:
        """The value of a sum, a product, a power; a number where all of it is numbers."""
        if isinstance(node, Negative):
            of = self.operand(node.operand, scope)
            if of.op == "number":
                return scope.number(fold("-", 0, of.number, node.place), node.place)
            return scope.add(Value("neg", (of,), of.kind, of.width, of.sequence, keys=of.keys, place=node.place))
        first, chain = spine(node)
        result = self.operand(first, scope)
        for part in chain:
            left, right = result, self.operand(part.right, scope)
            combined = combine(part, left, right)
            if not isinstance(combined, Value):
                result = scope.number(combined, part.place)
            else:
                result = combined if combined in (left, right) else scope.add(combined)
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
                case Text() | Flag():
                    value = option.value.value
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


def combine(node: Binary, left: Value, right: Value) -> Value | float:
    """left operator right: a number where all is one, one of the two where the other changes nothing, else a new value.

    Raises FormulaError for kinds, widths or sequences that do not go together.
    """
    operator, place = node.operator, node.place
    a, b = (v.number if v.op == "number" else None for v in (left, right))
    if a is not None and b is not None:
        return fold(operator, a, b, place)
    if operator in ("//", "%") or (operator == "**" and b is None):
        raise FormulaError("kinds", place, left=describe(left), right=describe(right), operator=operator)
    if operator == "/" and b == 0:
        raise FormulaError("division-by-zero", place)
    if operator == "/" and a == 0:
        return 0
    if operator == "**" and b == 0:
        return 1
    if remains := neutral(operator, a, b):
        return 0 if remains == "zero" else left if remains == "left" else right
    return new_value(node, left, right)


def new_value(node: Binary, left: Value, right: Value) -> Value:
    """A value of two that change one another: their widths are equal or 1, and at most one sequence is theirs."""
    kinds = {left.kind, right.kind} - {"number"}
    if "scores" in kinds and kinds - {"scores"}:
        raise FormulaError("kinds", node.place, left=describe(left), right=describe(right), operator=node.operator)
    kind = "stream" if "stream" in kinds else kinds.pop()
    widths = {v.width for v in (left, right) if v.op != "number"}
    if kind != "scores" and len(widths - {1}) > 1:
        raise FormulaError("widths", node.place, left=left.width, right=right.width)
    pairs = ((left.sequence, right.sequence), (left.keys, right.keys))
    for one, two in pairs:
        if one and two and one != two:
            raise FormulaError("sequences", node.place, left=one, right=two)
    sequence, keys = (one or two for one, two in pairs)
    return Value(BY_OPERATOR[node.operator], (left, right), kind, max(widths), sequence, keys=keys, place=node.place)
