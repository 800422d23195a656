"""From texts to the checked graph: what a model means.

`check` runs through `before`, layers 1 to depth, `after` and `output` as the model will, with values that know their kind,
width and sequence instead of tensors. All rules of the language that need more than one line are held here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .calls import check_option, default_of, describe, expression, split_items
from .definitions import Definition, check_second, read_definition
from .graph import Architecture, Call, Frame, Section, Stack, Template, Value
from .liveness import Flow, trim
from .messages import FormulaError, unknown
from .model_file import FREE_NUMBERS, INPUTS, ModelText, StackText
from .numbers import FUNCTIONS, apply_function, as_number, evaluate, fold, resolve
from .parser import parse, parse_expression
from .roles import name_modules
from .source import Place, Source
from .syntax import Binary, Choice, Flag, Index, Line, Name, Negative, Node, Number, Tap, Text, walk
from .syntax import Call as CallNode
from .vocabulary import Vocabulary

DEFAULT_NUMBERS = {"depth": 4, "width": 256, "heads": 4, "vocab": 256, "context": 64}
"""What a model takes where neither its file nor the run says it."""

DEFAULT_OUTPUT = "logits = unembed.words(x)"
MOST_CALLS = 100_000
MOST_LAYERS = 10_000


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


class Checker:
    """Checks one model. Use `check`."""

    def __init__(self, text: ModelText, vocabulary: Vocabulary, output: str) -> None:
        self.text, self.vocabulary = text, vocabulary
        self.used: set[str] = set()
        self.read: set[tuple[str, int, int]] = set()
        self.spelled: set[str] = set()
        self.used_definitions: set[str] = set()
        self.default_output = Source("output", output)
        self.inputs = {*INPUTS, *text.inputs}
        self.stacks: list[Stack] = []
        self.model_labels: dict[str, Any] = {}
        self.share_labels: dict[tuple[str, int], Any] = {}
        self.flow = Flow()
        self.stack_text = text.stacks[0]
        self.stack_names: set[str] = set()
        self.assigned: set[str] = set()

    # ------------------------------------------------------------------ the whole

    def run(self) -> Architecture:
        text = self.text
        given = {key: parse_expression(source) for key, source in text.numbers.items()}
        for key, value in DEFAULT_NUMBERS.items():
            if key not in given and not any(key in s.numbers for s in text.stacks):
                given[key] = parse_expression(Source(f"number {key}", str(value)))
        self.numbers = resolve(given, {}, self.used)
        self.definitions = self.read_definitions()
        for stack in text.stacks:
            self.stacks.append(self.stack(stack))
        output = self.section("output", 0, text.output or self.default_output, "output", self.numbers, stack="")
        for hook in text.hooks.values():
            parts = [hook] if isinstance(hook, (Source, str)) else list(hook.values())
            for part in parts:
                self.used.update(re.findall(r"[A-Za-z_]\w*", part.text if isinstance(part, Source) else str(part)))
        architecture = Architecture(text.name, self.stacks, output, self.numbers, text.hooks, text)
        self.check_unread(architecture)
        trim(architecture, self.flow)
        name_modules(architecture, self)
        return architecture

    def read_definitions(self) -> list[Definition]:
        definitions: list[Definition] = []
        for index, (header, body) in enumerate(self.text.words.items()):
            definition = read_definition(header, body, index)
            if any(d.name == definition.name for d in definitions):
                raise FormulaError("two-things", definition.place, name=definition.name, other="a definition")
            for name, other in (
                (definition.name in self.numbers, "a number of the file"),
                (definition.name in self.inputs, "an input of the task"),
            ):
                if name and not (
                    definition.name in self.vocabulary and self.vocabulary[definition.name].kind == "chance"
                ):
                    raise FormulaError("two-things", definition.place, name=definition.name, other=other)
            if definition.second:
                check_second(definition, set(self.numbers), self.inputs, self.used)
            definitions.append(definition)
        return definitions

    def stack(self, text: StackText) -> Stack:
        self.stack_text = text
        own = {key: parse_expression(source) for key, source in text.numbers.items()}
        numbers = {**self.numbers, **resolve(own, self.numbers, self.used)}
        depth = numbers.get("depth", DEFAULT_NUMBERS["depth"])
        if not isinstance(depth, int) or not 1 <= depth <= MOST_LAYERS:
            place = text.numbers.get("depth") or self.text.numbers.get("depth") or Source("depth", str(depth))
            raise FormulaError(
                "needs-depth", Place(place, 1, 0, 1, max(1, len(place.text))), name="depth", given=f"{depth:g}"
            )
        if not text.layers:
            raise FormulaError("no-layer", text.place, title=f"the stack {text.name!r}" if text.name else "the model")
        formulas = {name: parse(source) for name, source in text.layers.items()}
        before = text.before or Source(f"{text.name}, before" if text.name else "before", self.default_before(formulas))
        if text.name and text.before is None:
            raise FormulaError(
                "no-layer", text.place, title=f"the stack {text.name!r} (among several, each says its `before`)"
            )
        lines = parse(before)
        after = parse(text.after) if text.after else []
        self.assigned = {line.name for part in (lines, after, *formulas.values()) for line in part}
        self.count_calls(depth, [lines, after, *formulas.values()])
        order = self.order(text, formulas, numbers, depth)
        self.flow.begin(text.name)
        stack = Stack(text.name, text.causal, depth, numbers, None, [], None)  # type: ignore[arg-type]
        self.current = stack
        stack.before = self.section("before", 0, lines, "before", numbers, text.name)
        self.flow.leave(stack.before)
        for layer in range(1, depth + 1):
            name = order[layer - 1]
            section = self.section("layer", layer, formulas[name], name, {**numbers, "layer": layer}, text.name)
            stack.layers.append(section)
            self.flow.leave(section)
        unused = [name for name in formulas if name not in order]
        for name in unused:
            self.spell_lines(formulas[name])
        stack.after = self.section("after", 0, after, "after", numbers, text.name)
        if text.share is not None:
            node = parse_expression(text.share)
            stack.share = [
                self.whole(node, {**numbers, "layer": layer}, 0, 10 * MOST_LAYERS) for layer in range(1, depth + 1)
            ]
            pairs: dict[int, str] = {}
            for number, name in zip(stack.share, order, strict=True):
                if pairs.setdefault(number, name) != name:
                    raise FormulaError(
                        "order",
                        node.place,
                        detail=f"layers that share number {number} have different formulas",
                        known=", ".join(formulas),
                    )
        self.flow.finish(text.name, stack.after)
        if text.name:
            self.stack_names.add(text.name)
        return stack

    def order(
        self, text: StackText, formulas: Mapping[str, Any], numbers: Mapping[str, float], depth: int
    ) -> list[str]:
        known = ", ".join(formulas)
        if text.order is None:
            if len(formulas) > 1:
                raise FormulaError("order", text.place, detail="several formulas need an order", known=known)
            return [next(iter(formulas))] * depth
        if isinstance(text.order, tuple):
            names = [source.text.strip() for source in text.order]
            for source, name in zip(text.order, names, strict=True):
                if name not in formulas:
                    raise FormulaError(
                        "order",
                        Place(source, 1, 0, 1, len(source.text) or 1),
                        detail=f"{name!r} is not a formula of `layers`",
                        known=known,
                    )
            if not names:
                raise FormulaError("order", text.place, detail="the list is empty", known=known)
            return [names[i % len(names)] for i in range(depth)]
        node = parse_expression(text.order)

        def choose(node: Node, names: Mapping[str, float]) -> str:
            if isinstance(node, Choice):
                return choose(node.then if evaluate(node.test, self.looker(names)) else node.other, names)
            if isinstance(node, Name) and node.name in formulas:
                return node.name
            raise FormulaError(
                "order", node.place, detail=f"`{node.place.text}` is not a formula of `layers`", known=known
            )

        def all_named(node: Node) -> None:
            if isinstance(node, Choice):
                all_named(node.then)
                all_named(node.other)
            else:
                choose(node, {})

        all_named(node)
        return [choose(node, {**numbers, "layer": layer}) for layer in range(1, depth + 1)]

    def default_before(self, formulas: Mapping[str, list[Line]]) -> str:
        """Embedding, with learned positions unless a word of the layers tells positions apart itself."""
        for line in [line for lines in formulas.values() for line in lines] + [
            line for d in self.definitions for line in d.lines
        ]:
            for node in walk(line.value):
                if isinstance(node, CallNode):
                    record = self.vocabulary.get(node.word)
                    written = {o.name: o.value for o in node.options}
                    turns = written.get("rotary")
                    if (
                        (record and record.ordered)
                        or "score" in written
                        or (turns is not None and not (isinstance(turns, Number) and turns.value == 0))
                    ):
                        return "x = embed.words(tokens)"
        return "x = embed.words(tokens) + positions(tokens)"

    def count_calls(self, depth: int, parts: Sequence[Sequence[Line]]) -> None:
        """Refuse what would take more than 100,000 calls before any of them is made."""
        known: dict[str, int] = {}

        def count(node: Node, visible: int) -> int:
            if isinstance(node, Choice):
                return max(count(node.then, visible), count(node.other, visible)) + count(node.test, visible)
            inner = 0
            for child in walk(node)[1:] if not any(isinstance(n, Choice) for n in walk(node)) else ():
                if isinstance(child, CallNode):
                    inner += weight(child, visible)
            if isinstance(node, CallNode):
                return weight(node, visible) + inner
            return inner or sum(weight(n, visible) for n in walk(node) if isinstance(n, CallNode))

        def weight(node: CallNode, visible: int) -> int:
            for definition in reversed(self.definitions[:visible]):
                if definition.name == node.word:
                    return 1 + known[definition.name]
            return 1

        for definition in self.definitions:
            known[definition.name] = sum(count(line.value, definition.index) for line in definition.lines)
            if known[definition.name] > MOST_CALLS:
                raise FormulaError("too-many-calls", definition.place)
        sizes = [sum(count(line.value, len(self.definitions)) for line in part) for part in parts]
        if sum(sizes[:2]) + depth * max(sizes[2:], default=0) > MOST_CALLS:
            raise FormulaError("too-many-calls", None)

    # ------------------------------------------------------------------ sections

    def section(
        self,
        where: str,
        number: int,
        lines: Source | Sequence[Line],
        formula: str,
        numbers: Mapping[str, float],
        stack: str,
    ) -> Section:
        if isinstance(lines, Source):
            lines = parse(lines)
        section = Section(where, number, formula, stack)
        labels = {} if where == "layer" else self.model_labels
        scope = Scope(section, numbers, len(self.definitions), labels)
        self.flow.enter(section)
        for line in lines:
            self.check_target(line, scope)
            section.lines.append(self.assign(line, scope))
        for name, value in scope.names.items():
            self.flow.set(name, value, section, scope.places[name])
        if where == "output":
            for name in scope.names:
                if self.key(scope.places[name]) not in self.read:
                    section.leaves[name] = scope.names[name]
        return section

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

    @staticmethod
    def key(place: Place) -> tuple[str, int, int]:
        return (place.source.name, place.line, place.column)

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

    # ------------------------------------------------------------------ names and numbers

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
            raise unknown("unknown-number", node.place, node.name, [*numbers, "pi"])

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
            stack = self.stacks[-1].name if name == "memory" and self.stacks else name
            if stack in self.flow.results:
                return self.result_of(stack, node, scope)
        if any(d.name == name for d in self.definitions[: scope.visible]):
            return next(d for d in reversed(self.definitions[: scope.visible]) if d.name == name)
        known = [*scope.names, *scope.numbers]
        title = f"the definition {scope.definition.name!r}" if scope.definition else scope.section.title
        remedy = "a definition sees its parameters, numbers and the words above it"
        if scope.definition is None:
            known += [*self.flow.now, *self.inputs, *self.stack_names, *self.assigned]
            remedy = "set it before this line"
            if name in self.assigned:
                remedy = f"it is set later: give it a first value in `before`, or read it only where it is set (layer {max(scope.section.number, 1)} has none)"
        raise unknown("unset", node.place, name, [k for k in known if k != name], title=title, remedy=remedy)

    def sequence_of(self, name: str) -> str:
        if name in ("types", "targets", "document", "rank", "tokens"):
            return "tokens"
        return self.text.inputs.get(name) or name

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
            Value("name", kind=entry.kind, width=entry.width, sequence=entry.sequence, name=name, place=node.place),
        )

    def result_of(self, stack: str, node: Node, scope: Scope) -> Value:
        found = self.flow.results[stack]
        self.read.add(self.key(found.place))
        entry: Value = found.value
        made = next(s for s in self.stacks if s.name == stack)
        self.check_seen(made, entry, stack, node, scope)
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

    def check_seen(self, made: Stack, entry: Value, name: str, node: Node, scope: Scope) -> None:
        """In a causal stack, what a stack that sees everything made of the same sequence is refused."""
        if scope.section.where != "output" and self.current.causal and not made.causal and entry.sequence:
            own = (
                {v.sequence for v in self.current.before.values if v.op == "input"}
                if self.current.before
                else {"tokens"}
            )
            if entry.sequence in own:
                raise FormulaError("not-causal", node.place, name=name)

    # ------------------------------------------------------------------ expressions

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
                return self.add(
                    scope, Value("neg", (inner,), inner.kind, inner.width, inner.sequence, place=node.place)
                )
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
        if len(set(sequences)) > 1:
            raise FormulaError("sequences", node.place, left=sequences[0], right=sequences[1])
        op = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow"}[operator]
        return self.add(
            scope, Value(op, (left, right), kind, max(widths), sequences[0] if sequences else "", place=node.place)
        )

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
        stack = (
            name if name in self.flow.results else (self.stacks[-1].name if name == "memory" and self.stacks else "")
        )
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
        snapshots = self.flow.snapshots(stack if not own else self.current.name)
        if name not in self.assigned and own and name not in {n for s in snapshots for n in s}:
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
            found = snapshots[number].get(name)
            if found is None:
                raise FormulaError(
                    "history-unset", node.place, name=name, place_name=f"layer {number}" if number else "`before`"
                )
            return self.past(name, number, found, stack, node, scope)
        entries: list[Value] = []
        for number in range(last + 1):
            found = snapshots[number].get(name)
            if found is not None and found.section is self.flow.left(stack if not own else self.current.name, number):
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
        if stack:
            self.check_seen(next(s for s in self.stacks if s.name == stack), entry, stack, node, scope)
        for value in scope.section.values:
            if value.op == "history" and (value.name, value.number, value.stack) == (name, number, stack):
                return value
        value = Value(
            "history",
            kind=entry.kind,
            width=entry.width,
            sequence=entry.sequence,
            name=name,
            number=number,
            stack=stack,
            place=node.place,
        )
        scope.section.values.append(value)
        return value

    # ------------------------------------------------------------------ spelling of what is not built

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
                    raise unknown(
                        "unset", node.place, name, known, title=scope.section.title, remedy="set it before this line"
                    )

    def known_word(self, node: CallNode, visible: int) -> None:
        for definition in reversed(self.definitions[:visible]):
            if definition.name == node.word:
                self.used_definitions.add(definition.name)
                return
        record = self.vocabulary.get(node.word)
        if record is None and node.word not in FUNCTIONS:
            self.unknown_word(node, visible)
        if record is not None:
            for option in node.options:
                if option.name not in record.options and option.name not in record.ports and option.name != "share":
                    raise unknown(
                        "unknown-option", option.place, option.name, [*record.options, *record.ports], word=node.word
                    )
                if isinstance(option.value, Name):
                    self.used_definitions.add(option.value.name)

    def unknown_word(self, node: CallNode, visible: int) -> None:
        known = [*self.vocabulary, *(d.name for d in self.definitions[:visible]), *FUNCTIONS]
        raise unknown("unknown-word", node.head, node.word, known)

    # ------------------------------------------------------------------ calls

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

    def options_of(self, node: CallNode, scope: Scope) -> dict[str, tuple[Any, Place]]:
        """The options that a call writes, evaluated: numbers, strings, booleans, definitions, streams for ports."""
        options: dict[str, tuple[Any, Place]] = {}
        for option in node.options:
            if option.name in options:
                raise FormulaError("option-twice", option.place, word=node.word, name=option.name)
            match option.value:
                case Text(value=value) | Flag(value=value):
                    found: Any = value
                case Name():
                    found = self.look(option.value, scope)
                    if isinstance(found, Definition):
                        self.used_definitions.add(found.name)
                case _:
                    found = self.value(option.value, scope)
            if isinstance(found, Value) and found.op == "number":
                found = found.number
            options[option.name] = (found, option.value.place)
        return options

    def take_share(self, node: CallNode, options: dict[str, tuple[Any, Place]]) -> int | None:
        if "share" not in options:
            return None
        value, place = options.pop("share")
        if not node.label:
            raise FormulaError("share-label", node.place, word=node.word)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise FormulaError(
                "option-type",
                place,
                word=node.word,
                name="share",
                expected="a whole number",
                given=describe(value),
                help="",
            )
        return value

    def labelled(
        self, node: CallNode, scope: Scope, share: int | None, what: str, family: str
    ) -> tuple[dict[Any, Any], Any, Any]:
        """The table that a label lives in, its key there, and what stands there already."""
        table: dict[Any, Any] = scope.labels
        key: Any = node.label
        if share is not None:
            table, key = self.share_labels, (node.label, share)
        found = table.get(key)
        if found is not None and (found[0] != what and not (family and found[2] == family)):
            raise FormulaError("label-twice", node.place, label=node.label, first=found[0], second=what)
        return table, key, found

    def call_word(
        self,
        record: Any,
        name: str,
        node: CallNode,
        items: list[Any],
        options: dict[str, tuple[Any, Place]],
        scope: Scope,
    ) -> Any:
        place = node.place
        share = self.take_share(node, options)
        for item, item_node in zip(items, node.items, strict=False):
            if not isinstance(item, Value):
                raise FormulaError("definition-value", item_node.place, name=name, what="streams and numbers here")
        streams_given, streams, numbers = split_items(record, name, node, items)
        for option_name, value in zip(record.numbers, numbers, strict=False):
            if option_name in options:
                raise FormulaError("option-twice", place, word=name, name=option_name)
            options[option_name] = (value.number, value.place or place)
        ports: list[tuple[str, Value]] = []
        for port in record.ports:
            if port in options:
                value, port_place = options.pop(port)
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    if value == 0:
                        continue
                    value = Value("number", kind="number", number=value, place=port_place)
                if not isinstance(value, Value):
                    raise FormulaError("wrong-kind", port_place, word=f"{name}({port}=)", what=describe(value))
                ports.append((port, value))
        for option_name, (_, option_place) in options.items():
            if option_name not in record.options:
                raise unknown("unknown-option", option_place, option_name, [*record.options, *record.ports], word=name)
        # streams
        entries, widths, flat, flat_names = 0, {}, [], []
        for stream_name, value in zip(streams_given, streams, strict=True):
            many = any(f == f"*{stream_name}" for form in record.forms for f in form)
            if value.kind == "list" and not many:
                raise FormulaError("list-here", value.place or place)
            if value.kind == "input" and record.kind != "input":
                raise FormulaError("not-an-input", value.place or place, word=name, what=f"{value.name!r}")
            if (
                value.kind in ("coefficient", "scores")
                and record.kind not in ("function", "shape", "chance", "scores")
                and value.kind == "scores"
            ):
                raise FormulaError("wrong-kind", value.place or place, word=name, what=describe(value))
            if (
                value.kind == "number"
                and value.op == "number"
                and not many
                and record.kind not in ("function", "chance")
            ):
                raise FormulaError("wrong-kind", place, word=name, what=describe(value))
            inside = list(value.args) if value.kind == "list" else [value]
            inside = [v for v in inside if v.op != "number"] if many else inside
            entries += len(inside) if many else 0
            flat += inside
            flat_names += [stream_name] * len(inside)
            if inside:
                widths.setdefault(stream_name, inside[0].width)
            for other in inside:
                if many and other.width != widths[stream_name]:
                    raise FormulaError("widths", place, left=widths[stream_name], right=other.width)
        if any(f.startswith("*") for form in record.forms for f in form) and not flat:
            raise FormulaError("empty-list", place, word=name)
        if record.equal and len(set(widths.values())) > 1:
            left, right = list(widths.values())[:2]
            raise FormulaError("widths", place, left=left, right=right)
        if record.reach == "all" and scope.section.where != "output" and self.current.causal and record.kind != "input":
            raise FormulaError("reach-all", node.head, word=name)
        # options
        table, key, found = (
            ({}, None, None) if not node.label else self.labelled(node, scope, share, name, record.family)
        )
        earlier: Call | None = found[1] if found is not None and found[0] == name else None
        names: dict[str, Any] = {
            **{f: 0 for form in record.forms for f in form},
            **widths,
            "entries": entries,
            "entry": next(iter(widths.values()), 0),
        }
        resolved: dict[str, Any] = {}
        environment = _Environment(scope.numbers, self.used)
        for option_name, option in record.options.items():
            environment.names = {**names, **resolved}
            if option_name in options:
                value, option_place = options[option_name]
                resolved[option_name] = check_option(name, option, value, option_place)
            elif earlier is not None and option_name in earlier.given:
                resolved[option_name] = earlier.options[option_name]
            else:
                resolved[option_name] = default_of(name, option, environment, place)
            if earlier is not None and option.shapes and earlier.options[option_name] != resolved[option_name]:
                raise FormulaError(
                    "label-differs",
                    place,
                    label=node.label,
                    name=option_name,
                    first=describe(earlier.options[option_name]),
                    second=describe(resolved[option_name]),
                )
        environment.names = {**names, **resolved, "given": 1}
        for condition, message in record.checks.items():
            if not expression(record, condition, environment, place):
                detail = message.format_map(_Shown(environment))
                raise FormulaError("check-failed", place, word=name, detail=detail)
        if record.kind == "chance" and resolved.get("p") == 0 and not node.label:
            return flat[0]
        width = expression(record, record.width, environment, place) if record.width else (flat[0].width if flat else 1)
        if not isinstance(width, int) or width < 1:
            raise FormulaError(
                "check-failed", place, word=name, detail=f"its result's width {record.width} is {width:g}"
            )
        call = Call(
            record,
            name,
            resolved,
            frozenset(options),
            tuple(flat_names),
            tuple(p for p, _ in ports),
            entries,
            node.label,
            numbers=_Frozen({**dict(scope.numbers), **environment.names}),
            share=share,
        )
        if earlier is not None and earlier.given:
            call.given = call.given | earlier.given
        for role, text in record.inner.items():
            inner_width = expression(record, text, environment, place)
            if inner_width:
                call.inner[role] = self.template(inner_width, node, scope)
        if record.sequence == "own":
            sequence = f"{name}.{len(scope.section.values)}.{scope.section.title}"
        else:
            sequence = flat[0].sequence if record.sequence == "first" and flat else ""
        kind = (
            record.value
            if not (
                record.kind in ("function", "shape", "chance") and flat and flat[0].kind in ("coefficient", "scores")
            )
            else flat[0].kind
        )
        value = self.add(
            scope,
            Value(
                "call",
                tuple(flat) + tuple(v for _, v in ports),
                kind,
                width,
                sequence,
                name=name,
                call=call,
                place=place,
            ),
        )
        if node.label and found is None:
            table[key] = (name, call, record.family)
        self.remember(node, name, value, scope)
        return value

    def remember(self, node: CallNode, name: str, thing: Any, scope: Scope) -> None:
        scope.calls.setdefault(name, []).append(thing)
        if node.label:
            scope.calls[f".{node.label}"] = [thing]

    def template(self, width: int, node: CallNode, scope: Scope) -> Template:
        """The file's `norm` on a stream of `width`, for use inside another word."""
        section = Section(scope.section.where, scope.section.number, scope.section.formula, scope.section.stack)
        argument = Value("argument", width=width, sequence="inner", name="x")
        inner = Scope(section, scope.numbers, scope.visible, {}, names={"x": argument})
        if any(d.name == "norm" for d in self.definitions):
            inner.visible = len(self.definitions)
        call = CallNode(node.place, "norm", "", (Name(node.place, "x"),), (), node.head)
        result = self.call(call, inner)
        if not isinstance(result, Value):
            raise FormulaError("wrong-kind", node.place, word="norm", what=describe(result))
        alias = len(section.values) == 1 and result.op == "call" and result.args == (argument,)
        return Template(section.values, argument, result, alias)

    def call_definition(self, definition: Definition, node: CallNode, scope: Scope) -> Any:
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
            return self.call_alias(definition, alias, node, share, body, scope)
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
        self, definition: Definition, alias: CallNode, node: CallNode, share: int | None, body: Scope, scope: Scope
    ) -> Any:
        """A definition of a single call renames that word: its module stands under the definition's name."""
        items = [self.value(item, body) for item in alias.items]
        options = self.options_of(alias, body)
        if share is not None:
            options["share"] = (share, node.place)
        self.read.add(self.key(definition.lines[0].place))
        renamed = CallNode(node.place, definition.name, node.label, alias.items, (), node.head)
        for inner in reversed(self.definitions[: definition.index]):
            if inner.name == alias.word:
                self.used_definitions.add(inner.name)
                deeper = CallNode(node.place, alias.word, node.label, alias.items, alias.options, node.head)
                body.labels, body.calls = scope.labels, scope.calls
                return self.call_definition(inner, deeper, body)
        record = self.vocabulary.get(alias.word)
        if record is None:
            if alias.word in FUNCTIONS and all(i.op == "number" for i in items):
                return self.number(apply_function(alias.word, [i.number for i in items], node.place), node, scope)
            self.unknown_word(alias, definition.index)
        body.labels, body.calls = scope.labels, scope.calls
        return self.call_word(record, definition.name, renamed, items, options, body)

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
        if not text:
            return self.add(scope, Value("tap", (thing,), "scores", 1, thing.sequence, name=node.tap, place=node.place))
        width = expression(call.word, text, call.numbers, node.place)
        return self.add(scope, Value("tap", (thing,), "stream", width, thing.sequence, name=node.tap, place=node.place))

    # ------------------------------------------------------------------ what nothing reads

    def check_unread(self, architecture: Architecture) -> None:
        for name, source in self.text.numbers.items():
            if name not in self.used and name not in FREE_NUMBERS:
                raise FormulaError("number-unused", Place(source, 1, 0, 1, max(1, len(source.text))), name=name)
        for stack in self.text.stacks:
            for name, source in stack.numbers.items():
                if name not in self.used and name not in FREE_NUMBERS:
                    raise FormulaError("number-unused", Place(source, 1, 0, 1, max(1, len(source.text))), name=name)
        lines: dict[tuple[str, int, int], Line | tuple[Place, str, Any]] = {}
        for section in architecture.sections():
            if section.where != "output":
                for line in section.lines:
                    lines.setdefault(self.key(line[0]), line)
        for key, (place, name, _) in lines.items():  # type: ignore[misc]
            if key not in self.read and name not in self.spelled:
                raise FormulaError("never-read", place, name=name)
        for definition in self.definitions:
            if definition.name not in self.used_definitions:
                raise FormulaError("definition-unused", definition.place, name=definition.name)


class _Environment(Mapping[str, Any]):
    """Names of a record's expression: options and widths before the file's numbers, which become used when read."""

    def __init__(self, numbers: Mapping[str, float], used: set[str]) -> None:
        self.numbers, self.used, self.names = numbers, used, {}

    def __getitem__(self, key: str) -> Any:
        if key in self.names:
            return self.names[key]
        value = self.numbers[key]
        self.used.add(key)
        return value

    def __iter__(self) -> Any:
        return iter({**self.numbers, **self.names})

    def __len__(self) -> int:
        return len({**self.numbers, **self.names})


class _Frozen(dict[str, Any]):
    """The names of a call's expressions, kept."""


class _Shown(dict[str, Any]):
    def __init__(self, environment: Mapping[str, Any]) -> None:
        super().__init__()
        self.environment = environment

    def __missing__(self, key: str) -> Any:
        return self.environment.get(key, f"{{{key}}}")


def check(
    text: ModelText, vocabulary: Vocabulary, overrides: Mapping[str, Any] | None = None, *, output: str = DEFAULT_OUTPUT
) -> Architecture:
    """Check a model and return its graph.

    `overrides` are numbers and formulas that replace the file's; `output` is the task's, for a model without one.
    Raises FormulaError at the first mistake.
    """
    if overrides:
        text = text.override(overrides)
    try:
        return Checker(text, vocabulary, output).run()
    except RecursionError:
        raise FormulaError("too-deep", None) from None
