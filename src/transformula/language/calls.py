"""Calls as written: of a function of numbers, of a definition, or of a word.

Here the knot is tied: an expression holds calls, the arguments of a call are expressions, a definition's lines both.
A definition is opened into the graph; a call of one that only renames a word is passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .context import Context, Scope, label_table, labeled
from .definitions import Definition
from .expressions import Expressions
from .graph import Frame, Value, describe
from .messages import FormulaError, unknown
from .names import Names
from .numbers import FUNCTIONS, apply_function, is_whole
from .source import Place
from .spelling import SpellingCheck
from .syntax import CallNode, Flag, Name, Node, Text
from .word_calls import WordCall, WordCalls

MOST_FRAMES = 50
"""Definitions that may be called one inside the other."""

Options = dict[str, tuple[Any, Place]]
"""The options that a call writes, evaluated, and where they stand."""


class Calls:
    """Evaluates calls, and with `expressions` all that they stand in."""

    def __init__(self, context: Context) -> None:
        self.context, self.names, self.spelling = context, Names(context), SpellingCheck(context)
        self.expressions = Expressions(self.names, self.spelling, self.call)
        self.words = WordCalls(self.names, self.call)

    def call(self, node: CallNode, scope: Scope, name: str = "", share: int | None = None) -> Any:
        """The value of a call. Raises FormulaError.

        name   under which its module stands, where a definition only renames the word
        share  as the call of that definition gives it
        """
        definition = self.context.definition(node.word, scope.visible)
        if definition is not None:
            self.names.reads.definitions.add(definition.name)
            if definition.second:
                what = f"{definition.name!r}, a definition over scores: give it to score= or mask="
                raise FormulaError("wrong-kind", node.head, word="a formula", what=what)
        items = [self.expressions.value(item, scope) for item in node.items]
        numbers = [item.number for item in items if isinstance(item, Value) and item.op == "number"]
        of_numbers = node.word in FUNCTIONS and len(numbers) == len(items) > 0 and not node.label
        if definition is None and of_numbers:
            for option in node.options:
                raise unknown("unknown-option", option.place, option.name, [], word=node.word)
            return scope.number(apply_function(node.word, numbers, node.place), node.place)
        record = self.spelling.record(node, scope.visible) if definition is None else None
        options = self.expressions.options(node, scope)
        if share is not None:
            options["share"] = (share, node.place)
        share = take_share(node.word if definition else name or node.word, node, options)
        if record is not None:
            return WordCall(self.words, record, name or node.word, node, scope, options, share).value(items)
        assert definition is not None
        return self.defined(definition, name or definition.name, node, items, options, share, scope)

    def defined(
        self,
        definition: Definition,
        name: str,
        node: CallNode,
        items: Sequence[Any],
        options: Options,
        share: int | None,
        scope: Scope,
    ) -> Any:
        """The value of a definition's call. `name`: its own, or that of one that only renames it."""
        names = bound(definition, node, items, options)
        body = Scope(scope.section, scope.stack, scope.numbers, definition.index, {}, names, definition=definition)
        for key, default in definition.defaults.items():
            if key not in names:
                names[key] = self.default(default, body)
        alias = definition.alias
        if alias is None:
            return self.opened(definition, node, share, body, scope)
        if alias.word not in FUNCTIONS and self.context.definition(alias.word, definition.index) is None:
            self.spelling.record(alias, definition.index)  # an unknown word is shown where it is written
        self.names.reads.line(definition.lines[0].place)
        body.frames, body.labels, body.calls = scope.frames, scope.labels, scope.calls
        renamed = CallNode(node.place, alias.word, node.label, alias.items, alias.options, node.head)
        return self.call(renamed, body, name, share)

    def default(self, node: Node, body: Scope) -> Any:
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


def take_share(word: str, node: CallNode, options: Options) -> int | None:
    """The number under `share=`, taken out of the options; None without. Raises FormulaError."""
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
