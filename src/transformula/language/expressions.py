"""Expressions: lines, arithmetic, history and taps become values of the graph."""

from __future__ import annotations

from typing import Any

from .calls import describe, expression
from .definitions import Definition
from .graph import Call, Frame, Value
from .messages import FormulaError, unknown
from .names import Names, Scope
from .numbers import as_number, evaluate, fold
from .source import Place
from .syntax import Binary, CallNode, Choice, Index, Line, Name, Negative, Node, Number, Tap

MOST_ENTRIES = 100_000
"""Values of layers that all lists of history together may hold: those of a stack of 440 layers that each list all."""


class Expressions(Names):
    """Evaluates expressions; calls are left to `Calls`."""

    def call(self, node: CallNode, scope: Scope) -> Any:
        """The value of a call; see `Calls`."""
        raise NotImplementedError

    def check_target(self, line: Line, scope: Scope) -> None:
        other = ""
        if line.name in scope.numbers or line.name == "pi" or (line.name == "layer"):
            other = "a number of the file" if line.name not in ("layer", "pi") else "a number"
        elif line.name in self.vocabulary:
            other = "a word"
        elif any(d.name == line.name for d in self.definitions):
            other = "a definition"
        elif line.name in self.inputs:
            other = "an input of the task"
        elif line.name in self.stack_names or line.name == "memory":
            other = "a stack"
        if other and scope.definition is None:
            raise FormulaError("two-things", self.target_place(line), name=line.name, other=other)

    @staticmethod
    def target_place(line: Line) -> Place:
        place = line.place
        return Place(place.source, place.line, place.column, place.line, place.column + len(line.name))

    def assign(self, line: Line, scope: Scope) -> tuple[Place, str, Value | None]:
        node = line.value
        while isinstance(node, Choice):
            taken = evaluate(node.test, self.looker(scope.numbers, scope))
            self.spell(node.other if taken else node.then, scope)
            node = node.then if taken else node.other
        if isinstance(node, Name) and node.name == line.name and line.name not in scope.names:
            self.look(node, scope)
            self.read.add(self.key(line.place))
            return (line.place, line.name, None)
        value = self.value(node, scope)
        if isinstance(value, Value) and value.kind == "list":
            raise FormulaError("list-here", node.place)
        scope.names[line.name] = value
        scope.places[line.name] = line.place
        return (line.place, line.name, value)

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of an expression: a Value, or in definitions what a parameter stands for."""
        match node:
            case Number(value=value):
                return self.number(value, node, scope)
            case Name():
                found = self.look(node, scope)
                if isinstance(found, Definition) or isinstance(found, (str, bool)):
                    raise FormulaError("wrong-kind", node.place, word="an expression", what=describe(found))
                return found
            case Negative(operand=operand):
                inner = self.operand(operand, scope)
                if inner.op == "number":
                    return self.number(fold("-", 0, inner.number, node.place), node, scope)
                made = Value("neg", (inner,), inner.kind, inner.width, inner.sequence, place=node.place)
                made.keys = inner.keys
                return self.add(scope, made)
            case Binary():
                spine: list[Binary] = []
                left: Node = node
                while isinstance(left, Binary):
                    spine.append(left)
                    left = left.left
                result = self.operand(left, scope)
                for part in reversed(spine):
                    result = self.binary(part, result, self.operand(part.right, scope), scope)
                return result
            case Choice(test=test, then=then, other=other):
                taken = evaluate(test, self.looker(scope.numbers, scope))
                self.spell(other if taken else then, scope)
                return self.value(then if taken else other, scope)
            case Index():
                return self.history(node, scope)
            case Tap():
                return self.tap(node, scope)
            case CallNode():
                return self.call(node, scope)
        raise FormulaError("not-a-number", node.place, what=f"`{node.place.text}`")

    def operand(self, node: Node, scope: Scope) -> Value:
        value = self.value(node, scope)
        if not isinstance(value, Value):
            raise FormulaError("wrong-kind", node.place, word="an expression", what=describe(value))
        if value.kind == "list":
            raise FormulaError("list-here", node.place)
        if value.kind == "input":
            raise FormulaError("not-an-input", node.place, word="an expression", what=f"{value.name!r}")
        return value

    def add(self, scope: Scope, value: Value) -> Value:
        value.frames = scope.frames
        scope.section.values.append(value)
        return value

    def binary(self, node: Binary, left: Value, right: Value, scope: Scope) -> Value:
        operator = node.operator
        if left.op == "number" and right.op == "number":
            return self.number(fold(operator, left.number, right.number, node.place), node, scope)
        if operator in ("//", "%") or (operator == "**" and right.op != "number"):
            raise FormulaError("kinds", node.place, left=describe(left), right=describe(right), operator=operator)
        if operator == "/" and right.op == "number" and right.number == 0:
            raise FormulaError("division-by-zero", node.place)
        zero_left, zero_right = (v.op == "number" and v.number == 0 for v in (left, right))
        one_left, one_right = (v.op == "number" and v.number == 1 for v in (left, right))
        if operator in "+-" and zero_right:
            return left
        if operator == "+" and zero_left:
            return right
        if operator == "*" and (zero_left or zero_right):
            return self.number(0, node, scope)
        if operator == "/" and zero_left:
            return self.number(0, node, scope)
        if operator == "*" and one_left:
            return right
        if operator in ("*", "/", "**") and one_right:
            return left
        if operator == "**" and zero_right:
            return self.number(1, node, scope)
        kinds = {left.kind, right.kind} - {"number"}
        if "scores" in kinds and kinds - {"scores"}:
            raise FormulaError("kinds", node.place, left=describe(left), right=describe(right), operator=operator)
        kind = "stream" if "stream" in kinds else kinds.pop()
        widths = {v.width for v in (left, right) if v.op != "number"}
        if kind != "scores" and len(widths - {1}) > 1:
            raise FormulaError("widths", node.place, left=left.width, right=right.width)
        sequences = [v.sequence for v in (left, right) if v.sequence]
        keys = [v.keys for v in (left, right) if v.keys]
        for found in (sequences, keys):
            if len(set(found)) > 1:
                raise FormulaError("sequences", node.place, left=found[0], right=found[1])
        op = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow"}[operator]
        made = Value(op, (left, right), kind, max(widths), sequences[0] if sequences else "", place=node.place)
        made.keys = keys[0] if keys else ""
        return self.add(scope, made)

    def history(self, node: Index, scope: Scope) -> Any:
        name, section = node.name, scope.section
        if scope.definition is not None:
            raise FormulaError(
                "unset",
                node.place,
                name=name,
                title=f"the definition {scope.definition.name!r}",
                remedy="a definition gets history as an argument: f(x[:])",
            )
        stack = name if name in self.flow.results else self.above(scope) if name == "memory" else ""
        own = stack == ""
        if not own:
            made = next(s for s in self.stacks if s.name == stack)
            last, name = made.depth, "x"
        else:
            last = (
                section.number - 1
                if section.where == "layer"
                else (self.current.depth if section.where == "after" else -1)
            )
            if section.where == "output":
                last = self.current.depth
        whose = self.current.name if own else stack
        if name not in self.assigned and own and all(name not in s for _, s in self.flow.history[whose]):
            raise unknown(
                "unset",
                node.place,
                name,
                [*self.assigned],
                title=section.title,
                remedy="set it in `before` or in a layer",
            )
        if last < 0:
            raise FormulaError(
                "history-range",
                node.place,
                name=name,
                index=":" if node.index is None else "n",
                title=section.title,
                last="nothing",
            )
        if node.index is not None:
            number = as_number(node.index, evaluate(node.index, self.looker(scope.numbers, scope)))
            if not isinstance(number, int) or not 0 <= number <= last:
                raise FormulaError(
                    "history-range", node.place, name=node.name, index=f"{number:g}", title=section.title, last=last
                )
            found = self.flow.snapshot(whose, number).get(name)
            if found is None:
                raise FormulaError(
                    "history-unset", node.place, name=name, place_name=f"layer {number}" if number else "`before`"
                )
            return self.past(name, number, found, stack, node, scope)
        entries: list[Value] = []
        self.entries += last + 1
        if self.entries > MOST_ENTRIES:
            raise FormulaError("too-many-entries", node.place, name=name)
        for number in range(last + 1):
            found = self.flow.snapshot(whose, number).get(name)
            if found is not None and found.section is self.flow.left(whose, number):
                entries.append(self.past(name, number, found, stack, node, scope))
        if own and name in scope.names:
            self.mark(scope, name)
            entries.append(scope.names[name])
        entries = [e for e in entries if e.op != "number"]
        first = entries[0] if entries else Value("number")
        for entry in entries:
            if (entry.kind, entry.width) != (first.kind, first.width):
                raise FormulaError("widths", node.place, left=first.width, right=entry.width)
        self.spelled.add(name)
        return Value("list", tuple(entries), "list", first.width, first.sequence, name=name, place=node.place)

    def past(self, name: str, number: int, found: Any, stack: str, node: Node, scope: Scope) -> Value:
        self.read.add(self.key(found.place))
        entry: Value = found.value
        if entry.op == "number":
            return self.number(entry.number, node, scope)
        key = id(scope.section), stack, name, number
        if key in self.pasts:
            return self.pasts[key]
        value = self.pasts[key] = Value(
            "history",
            kind=entry.kind,
            width=entry.width,
            sequence=entry.sequence,
            keys=entry.keys,
            name=name,
            number=number,
            stack=stack,
            place=node.place,
        )
        scope.section.values.append(value)
        return value

    def tap(self, node: Tap, scope: Scope) -> Value:
        by_label = scope.calls.get(f".{node.call}")
        things = by_label or scope.calls.get(node.call, [])
        if not things:
            made = sorted(c.lstrip(".") for c in scope.calls)
            raise unknown(
                "unknown-tap",
                node.place,
                node.call,
                made,
                call=node.call,
                tap=node.tap,
                remedy=f"a tap follows its call; calls before this line: {', '.join(made) or 'none'}",
            )
        if not by_label and len(things) > 1:
            raise FormulaError("tap-ambiguous", node.place, call=node.call, count=len(things), tap=node.tap)
        thing = things[0]
        if isinstance(thing, Frame):
            value = thing.names.get(node.tap)
            if not isinstance(value, Value) or value.kind == "list":
                known = [k for k, v in thing.names.items() if isinstance(v, Value)]
                raise unknown(
                    "unknown-tap",
                    node.place,
                    node.tap,
                    known,
                    call=node.call,
                    tap=node.tap,
                    remedy=f"its values: {', '.join(known)}",
                )
            for line in next(d for d in reversed(self.definitions) if d.name == thing.name).lines:
                if line.name == node.tap:
                    self.read.add(self.key(line.place))
            return value
        call: Call = thing.call
        if node.tap not in call.word.taps:
            raise unknown(
                "unknown-tap",
                node.place,
                node.tap,
                call.word.taps,
                call=node.call,
                tap=node.tap,
                remedy=f"its taps: {', '.join(call.word.taps) or 'none'}",
            )
        text = call.word.taps[node.tap]
        if node.tap not in call.taps:
            call.taps.append(node.tap)
        for value in scope.section.values:
            if value.op == "tap" and value.args[0] is thing and value.name == node.tap:
                return value
        keys = thing.args[len(call.streams) - 1].sequence
        if not text:
            tapped = Value("tap", (thing,), "scores", 1, thing.sequence, keys=keys)
        else:
            width = expression(call.word, text, call.numbers, node.place)
            sequence = keys if node.tap in call.word.key_taps else thing.sequence
            tapped = Value("tap", (thing,), "stream", width, sequence)
        tapped.name, tapped.place = node.tap, node.place
        return self.add(scope, tapped)
