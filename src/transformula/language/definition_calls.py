"""Calls as written: of a definition, which is opened into the graph, of a function of numbers, or of a word."""

from __future__ import annotations

from typing import Any

from .calls import describe
from .definitions import Definition
from .graph import Frame, Value
from .messages import FormulaError, unknown
from .names import Scope
from .numbers import FUNCTIONS, apply_function, evaluate
from .syntax import CallNode, Flag, Name, Text
from .word_calls import WordCalls


class Calls(WordCalls):
    """Evaluates calls."""

    def call(self, node: CallNode, scope: Scope) -> Any:
        for definition in reversed(self.definitions[: scope.visible]):
            if definition.name == node.word:
                self.used_definitions.add(definition.name)
                return self.call_definition(definition, node, scope)
        items = [self.value(item, scope) for item in node.items]
        if (
            node.word in FUNCTIONS
            and not node.label
            and items
            and all(isinstance(i, Value) and i.op == "number" for i in items)
        ):
            return self.number(apply_function(node.word, [i.number for i in items], node.place), node, scope)
        record = self.vocabulary.get(node.word)
        if record is None:
            self.unknown_word(node, scope.visible)
        assert record is not None
        return self.call_word(record, node.word, node, items, self.options_of(node, scope), scope)

    def call_definition(self, definition: Definition, node: CallNode, scope: Scope, name: str = "") -> Any:
        """A definition called: opened into the graph. `name`: that of a definition that only renames this one."""
        if definition.second:
            raise FormulaError(
                "wrong-kind",
                node.head,
                word="a formula",
                what=f"{definition.name!r}, a definition over scores: give it to score= or mask=",
            )
        items = [self.value(item, scope) for item in node.items]
        options = self.options_of(node, scope)
        alias = definition.alias
        share = self.take_share(node, options)
        expected = f"({', '.join([*definition.parameters, *(f'{k}=' for k in definition.defaults)])})"
        if len(items) < len(definition.parameters) or len(items) > len(definition.parameters) + len(
            definition.defaults
        ):
            raise FormulaError(
                "argument-count",
                node.place,
                word=definition.name,
                expected=expected,
                given=", ".join(describe(i) for i in items) or "nothing",
                equation=f"{definition.name}{expected}",
            )
        names: dict[str, Any] = dict(zip(definition.parameters, items, strict=False))
        for key, item in zip(definition.defaults, items[len(definition.parameters) :], strict=False):
            names[key] = item.number if isinstance(item, Value) and item.op == "number" else item
            if isinstance(names[key], Value):
                raise FormulaError(
                    "definition-value",
                    node.place,
                    name=f"{definition.name}({key}=)",
                    what="a number, a string, True, False or a definition",
                )
        for key, (value, place) in options.items():
            if key not in definition.defaults:
                raise unknown("unknown-option", place, key, definition.defaults, word=definition.name)
            if key in names:
                raise FormulaError("option-twice", place, word=definition.name, name=key)
            names[key] = value
        body = Scope(scope.section, scope.numbers, definition.index, {}, names=names, definition=definition)
        for key, default in definition.defaults.items():
            if key not in names:
                match default:
                    case Text(value=value) | Flag(value=value):
                        names[key] = value
                    case Name(name=name) if any(d.name == name for d in self.definitions[: definition.index]):
                        names[key] = next(d for d in self.definitions if d.name == name)
                        self.used_definitions.add(name)
                    case _:
                        names[key] = evaluate(default, self.looker(scope.numbers, body))
        if alias is not None:
            body.frames = scope.frames
            return self.call_alias(definition, alias, node, share, body, scope, name or definition.name)
        table, key_, found = (
            ({}, None, None) if not node.label else self.labelled(node, scope, share, definition.name, "")
        )
        frame = Frame(definition.name, node.label, node.place, names, share=share)
        if found is not None:
            frame.labels = found[1].labels
        elif node.label:
            table[key_] = (definition.name, frame, "")
        if len(scope.frames) >= 50:
            raise FormulaError("too-deep", node.place)
        body.frames = (*scope.frames, frame)
        body.labels = frame.labels
        result: Any = None
        for line in definition.lines:
            if line.name in definition.defaults or (line.name in scope.numbers):
                raise FormulaError("two-things", self.target_place(line), name=line.name, other="a number here")
            _, name, value = self.assign(line, body)
            result = value if value is not None else names.get(name)
        if not isinstance(result, Value):
            raise FormulaError("wrong-kind", definition.lines[-1].place, word="a definition", what=describe(result))
        self.read.add(self.key(definition.lines[-1].place))
        frame.result = result
        self.remember(node, definition.name, frame, scope)
        return result

    def call_alias(
        self,
        definition: Definition,
        alias: CallNode,
        node: CallNode,
        share: int | None,
        body: Scope,
        scope: Scope,
        name: str,
    ) -> Any:
        """A definition of a single call renames that word: its module stands under the definition's name."""
        items = [self.value(item, body) for item in alias.items]
        options = self.options_of(alias, body)
        if share is not None:
            options["share"] = (share, node.place)
        self.read.add(self.key(definition.lines[0].place))
        renamed = CallNode(node.place, name, node.label, alias.items, alias.options, node.head)
        for inner in reversed(self.definitions[: definition.index]):
            if inner.name == alias.word:
                self.used_definitions.add(inner.name)
                deeper = CallNode(node.place, alias.word, node.label, alias.items, alias.options, node.head)
                body.labels, body.calls = scope.labels, scope.calls
                return self.call_definition(inner, deeper, body, name)
        record = self.vocabulary.get(alias.word)
        if record is None:
            if alias.word in FUNCTIONS and all(i.op == "number" for i in items):
                return self.number(apply_function(alias.word, [i.number for i in items], node.place), node, scope)
            self.unknown_word(alias, definition.index)
        assert record is not None
        body.labels, body.calls = scope.labels, scope.calls
        return self.call_word(record, name, renamed, items, options, body)
