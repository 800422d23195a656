"""Expressions and calls: a tree becomes values of the graph.

A call is one of a function of numbers, of a definition or of a word. A definition is opened into the graph; a call of
one that only renames a word is passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .context import Context, Definition, Scope, check_free, label_table, labeled
from .graph import OPERATIONS, Frame, Value, describe
from .messages import FormulaError, unknown
from .names import Names
from .numbers import FUNCTIONS, apply_function, fold, is_whole, neutral
from .source import Place
from .syntax import Binary, CallNode, Choice, Index, Line, Literal, Name, Negative, Node, Number, Tap, spine
from .turning import turns_of_arithmetic
from .vocabulary import WordRecord
from .word_calls import WordCall, WordCalls

BY_OPERATOR = {operator: op for op, operator in OPERATIONS.items() if op != "neg"}
MOST_FRAMES = 50  # definitions that may be called one inside the other
Options = dict[str, tuple[Any, Place]]  # a call's: numbers, strings, flags, definitions, streams for ports


class Expressions:
    """Evaluates lines, expressions and calls. Its methods raise FormulaError."""

    def __init__(self, context: Context) -> None:
        self.context, self.names = context, Names(context)
        self.words = WordCalls(self.names, self.call)

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
        test = self.names.evaluate(node.test, scope.constants, scope)
        self.names.unbuilt(node.other if test else node.then, scope)
        return node.then if test else node.other

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of an expression: a Value, or in definitions what a parameter stands for."""
        match node:
            case Number(value=value):
                return scope.number(value, node.place)
            case Name():
                value = self.names.look(node, scope)
                if isinstance(value, (Definition, str, bool, tuple)):
                    raise FormulaError("wrong-kind", node.place, word="an expression", what=describe(value))
                return value
            case Negative() | Binary():
                return self.arithmetic(node, scope)
            case Choice():
                return self.value(self.chosen(node, scope), scope)
            case Index():
                constant = self.names.constant(node, scope)
                if isinstance(constant, (str, bool)):
                    raise FormulaError("wrong-kind", node.place, word="an expression", what=describe(constant))
                return self.names.history(node, scope) if constant is None else scope.number(constant, node.place)
            case Tap():
                return self.names.tap(node, scope)
            case CallNode():
                return self.call(node, scope)
        raise FormulaError("not-a-number", node.place, what=f"`{node.place.text}`")

    def arithmetic(self, node: Negative | Binary, scope: Scope) -> Value:
        if isinstance(node, Negative):
            of = self.operand(node.operand, scope)
            if of.op == "number":
                return scope.number(fold("-", 0, of.number, node.place), node.place)
            return scope.add(
                Value("neg", (of,), of.kind, of.width, of.sequence, keys=of.keys, place=node.place, turns=of.turns)
            )
        first, chain = spine(node)
        result = self.operand(first, scope)
        for part in chain:
            left, right = result, self.operand(part.right, scope)
            combined = combine(part, left, right, self.context)
            if not isinstance(combined, Value):
                result = scope.number(combined, part.place)
            else:
                result = combined if combined in (left, right) else scope.add(combined)
        return result

    def operand(self, node: Node, scope: Scope) -> Value:
        value = self.value(node, scope)
        if not isinstance(value, Value):
            raise FormulaError("wrong-kind", node.place, word="an expression", what=describe(value))
        if value.kind == "list":
            raise FormulaError("list-here", node.place)
        if value.kind == "input":
            raise FormulaError("not-an-input", node.place, word="an expression", what=f"{value.name!r}")
        return value

    def options(self, node: CallNode, scope: Scope, record: WordRecord | None) -> Options:
        known = record.options if record else {}
        options: Options = {}
        value: Any
        for option in node.options:
            if option.name in options:
                raise FormulaError("option-twice", option.place, word=node.word, name=option.name)
            match option.value:
                case Literal(value=value):
                    pass
                case Name():
                    value = self.names.look(option.value, scope, known.get(option.name))
                    if isinstance(value, Definition):
                        self.names.reads.definitions.add(value.name)
                case Index() if (constant := self.names.constant(option.value, scope)) is not None:
                    value = constant
                case _:
                    value = self.value(option.value, scope)
            if isinstance(value, Value) and value.op == "number":
                value = value.number
            options[option.name] = (value, option.value.place)
        return options

    def call(self, node: CallNode, scope: Scope, name: str = "", share: int | None = None) -> Any:
        """The value of a call; of one that a definition only renames, `name` and `share` are the definition's."""
        definition = self.context.definition(node.word, scope.visible)
        if definition is not None:
            self.names.reads.definitions.add(definition.name)
            if definition.second:
                what = f"{definition.name!r}, a definition over scores: give it to score= or mask="
                raise FormulaError("wrong-kind", node.head, word="a formula", what=what)
        items = [self.value(item, scope) for item in node.items]
        numbers = [item.number for item in items if isinstance(item, Value) and item.op == "number"]
        of_numbers = node.word in FUNCTIONS and len(numbers) == len(items) > 0 and not node.label
        if definition is None and of_numbers:
            for option in node.options:
                raise unknown("unknown-option", option.place, option.name, [], word=node.word)
            return scope.number(apply_function(node.word, numbers, node.place), node.place)
        record = self.names.record(node, scope.visible) if definition is None else None
        options = self.options(node, scope, record)
        if share is not None:
            options["share"] = (share, node.place)
        share = take_share(node.word if definition else name or node.word, node, options)
        if definition is not None:
            names = bound(definition, node, items, options)
            return self.defined(definition, name or definition.name, node, names, share, scope)
        assert record is not None
        return WordCall(self.words, record, name or node.word, node, scope, options, share).value(items)

    def defined(
        self, definition: Definition, name: str, node: CallNode, names: dict[str, Any], share: int | None, scope: Scope
    ) -> Any:
        """The value of a definition's call. `name`: its own, or that of one that only renames it."""
        body = Scope(scope.section, scope.stack, scope.constants, definition.index, {}, names, definition=definition)
        body.within = scope.within
        for key, default in definition.defaults.items():
            if key not in names:
                names[key] = self.default(default, body)
        alias = definition.alias
        if alias is None:
            return self.opened(definition, node, share, body, scope)
        if alias.word not in FUNCTIONS and self.context.definition(alias.word, definition.index) is None:
            self.names.record(alias, definition.index)  # an unknown word is shown where it is written
        self.names.reads.line(definition.lines[0].place)
        body.frames, body.labels, body.calls = scope.frames, scope.labels, scope.calls
        renamed = CallNode(node.place, alias.word, node.label, alias.items, alias.options, node.head)
        return self.call(renamed, body, name, share)

    def default(self, node: Node, body: Scope) -> Any:
        """What a parameter stands for that is not given: a string, a flag, a definition above, a number."""
        definition = self.context.definition(node.name, body.visible) if isinstance(node, Name) else None
        if definition is None:  # also what a string and a flag are
            return self.names.evaluate(node, body.constants, body)
        self.names.reads.definitions.add(definition.name)
        return definition

    def opened(self, definition: Definition, node: CallNode, share: int | None, body: Scope, scope: Scope) -> Value:
        """The result of the definition's lines, evaluated here under labels of their own."""
        earlier = labeled(self.context, scope, node, share, definition.name)
        frame = Frame(definition.name, node.label, node.place, body.names, share=share)
        if earlier is not None:
            frame.labels = earlier.labels
        elif node.label:
            label_table(self.context, scope, share)[node.label, share] = frame
        if len(scope.frames) >= MOST_FRAMES:
            raise FormulaError("too-deep", node.place)
        body.frames, body.labels = (*scope.frames, frame), frame.labels
        result: Any = None
        for line in definition.lines:
            taken = line.name in definition.defaults or line.name in scope.constants
            check_free(line.name, line.target, {"a number here": taken})
            value = self.assign(line, body)
            result = value if value is not None else body.names.get(line.name)
        if not isinstance(result, Value):
            raise FormulaError("wrong-kind", definition.lines[-1].place, word="a definition", what=describe(result))
        self.names.reads.line(definition.lines[-1].place)
        frame.result = result
        scope.called(node, definition.name, frame)
        return result


def combine(node: Binary, left: Value, right: Value, context: Context) -> Value | float:
    """left operator right: folded, or one of the two, or a new value. Raises FormulaError where they do not match."""
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
    return new_value(node, left, right, context)


def new_value(node: Binary, left: Value, right: Value, context: Context) -> Value:
    """A value of two that change one another: their widths are equal or 1, and at most one sequence is theirs."""
    kinds = {left.kind, right.kind} - {"number"}
    if "scores" in kinds and kinds - {"scores"}:
        raise FormulaError("kinds", node.place, left=describe(left), right=describe(right), operator=node.operator)
    kind = "stream" if "stream" in kinds else kinds.pop()
    widths = {v.width for v in (left, right) if v.op != "number"}
    if kind != "scores" and len(widths - {1}) > 1:
        raise FormulaError("widths", node.place, left=left.width, right=right.width)
    pairs = ((left.sequence, right.sequence), (left.keys, right.keys))
    for one, two in (pair for pair in pairs if all(pair) and len(set(pair)) == 2):
        raise context.apart(node.place, one, two)
    sequence, keys = (one or two for one, two in pairs)
    op, turns = BY_OPERATOR[node.operator], turns_of_arithmetic(node.operator, left, right)
    return Value(op, (left, right), kind, max(widths), sequence, keys=keys, place=node.place, turns=turns)


def take_share(word: str, node: CallNode, options: Options) -> int | None:
    if "share" not in options:
        return None
    value, place = options.pop("share")
    if not node.label:
        raise FormulaError("share-label", node.place, word=word)
    if not is_whole(value) or value < 0:
        expected, given = "a whole number", describe(value)
        raise FormulaError("option-type", place, word=word, name="share", expected=expected, given=given, help="")
    return int(value)


def bound(definition: Definition, node: CallNode, items: Sequence[Any], options: Options) -> dict[str, Any]:
    """The parameters that a call gives, by name."""
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
