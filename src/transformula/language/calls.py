"""Calls as written: of a function of numbers, of a definition, or of a word.

Here the knot is tied: an expression holds calls, the arguments of a call are expressions, a definition's lines both.
"""

from __future__ import annotations

from typing import Any

from .context import Context, Scope
from .definition_calls import DefinitionCalls
from .expressions import Expressions
from .graph import Value
from .labels import Labels
from .messages import FormulaError, unknown
from .names import Names
from .numbers import FUNCTIONS, apply_function
from .spelling import SpellingCheck
from .syntax import CallNode
from .word_calls import WordCalls


class Calls:
    """Evaluates calls, and with `expressions` all that they stand in."""

    def __init__(self, context: Context) -> None:
        names, labels = Names(context), Labels()
        self.context, self.names, self.spelling = context, names, SpellingCheck(context)
        self.expressions = Expressions(names, self.spelling, self.call)
        self.words = WordCalls(names, labels, self.call)
        self.definitions = DefinitionCalls(self.expressions, labels, self.call)

    def call(self, node: CallNode, scope: Scope, name: str = "", share: int | None = None) -> Any:
        """The value of a call. Raises FormulaError.

        name   under which its module stands, where a definition only renames the word
        share  as the call of that definition gives it
        """
        definition = self.context.definition(node.word, scope.visible)
        if definition is not None:
            self.context.reads.definitions.add(definition.name)
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
        if definition is not None:
            return self.definitions.call(definition, name or definition.name, node, items, options, scope)
        assert record is not None
        return self.words.call(record, name or node.word, node, items, options, scope)
