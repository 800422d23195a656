"""What an expression reads: a name, its history `x[n]` and `x[:]`, and taps `LABEL.v`.

Where nothing is built (the side of a condition that is not taken, formulas that no layer uses), words, options and
names are known, and count as read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import field_names
from ..errors import did_you_mean, nearest
from .context import Context, Scope, Setting
from .graph import Frame, Section, Value, describe
from .messages import FormulaError, unknown
from .numbers import FUNCTIONS, as_number, element, evaluate, is_number
from .options import expression, unknown_option
from .source import Place
from .syntax import CallNode, Index, Name, Node, Tap, names_read, walk
from .turning import turns_of_tap
from .vocabulary import Option, WordRecord

# Values of layers that all lists of history together may hold: those of a stack of 440 layers that each list all.
MOST_ENTRIES = 100_000


def written_values(option: Option) -> dict[str, str]:
    """The strings or flags that an option takes, and how each is written."""
    flags = ("True", "False") if option.type == "flag" else ()
    return {**{value: f'"{value}"' for value in option.choices}, **{value: value for value in flags}}


class Names:
    """Looks up in a context what expressions read, and notes that it has been read. Its methods raise FormulaError."""

    def __init__(self, context: Context) -> None:
        self.context, self.reads, self.flow = context, context.reads, context.flow
        self.entries = 0  # how many values the lists of history hold so far
        # A section, another stack or "", a name, a layer -> the value of history that stands for it in the section.
        self.past: dict[tuple[int, str, str, int], Value] = {}

    def look(self, node: Name, scope: Scope, option: Option | None = None) -> Any:
        """What a name stands for: a Value, or what a definition's parameter was given. `option`: whose value it is."""
        name = node.name
        if name in scope.names:
            self.reads.line(scope.places.get(name))
            value = scope.names[name]
            return scope.number(value, node.place) if is_number(value) else value
        if name in scope.constants:
            self.reads.numbers.add(name)
            value = scope.constants[name]
            return scope.number(value, node.place) if is_number(value) else value
        if name == "pi":
            return scope.number(math.pi, node.place)
        value = self.from_outside(node, scope) if scope.definition is None else None
        value = value or self.context.definition(name, scope.visible)
        if value is None:
            raise self.unset(node, scope, option)
        return value

    def from_outside(self, node: Name, scope: Scope) -> Value | None:
        """The value with which a name enters a formula: carried, given by the task, or a stack's result."""
        name, place, section, stack = node.name, node.place, scope.section, ""
        setting = self.flow.now.get(name)
        if setting is None:
            if name in self.context.inputs:
                return self.input(name, section, place)
            stack = self.above(scope) if name == "memory" else name
            setting = self.flow.results.get(stack)
            if setting is None:
                return None
        self.reads.line(setting.place)
        value = setting.value
        if stack:
            return entering(section, reading(value, "name", "x", place, stack=stack))
        if value.op == "number":
            return scope.number(value.number, place)
        first = self.flow.carried.setdefault(name, value)
        changed = (first.kind, first.width) != (value.kind, value.width) and first.op != "number"
        if changed and section.where == "layer":
            before, after = describe(first), describe(value)
            raise FormulaError("carried-changes", setting.place, name=name, before=before, after=after)
        return entering(section, reading(value, "name", name, place))

    def input(self, name: str, section: Section, place: Place) -> Value:
        sequence = self.context.sequence_of(name)
        return entering(section, Value("input", kind="input", name=name, sequence=sequence, place=place))

    def above(self, scope: Scope) -> str:
        """The stack that `memory` stands for: the one above, of the output the last but one; "" where there is none."""
        stacks = self.context.stacks
        above = stacks[:-1] if scope.section.where == "output" else stacks
        return above[-1].name if above else ""

    def unset(self, node: Name, scope: Scope, option: Option | None = None) -> FormulaError:
        name, known = node.name, [*scope.names, *scope.constants]
        values = written_values(option) if option else {}
        if near := nearest(name, values, most=1):
            said, remedy = did_you_mean([values[near[0]]]), "a string stands in quotes, a flag is True or False"
            return FormulaError("unset", node.place, near=near, said=said, name=name, title=scope.title, remedy=remedy)
        remedy = "a definition sees its parameters, numbers and the words above it"
        if scope.definition is None:
            assigned = self.flow.assigned
            known += [*self.flow.now, *self.context.inputs, *self.context.stack_names(), *assigned]
            known += [d.name for d in self.context.definitions[: scope.visible]]
            remedy = f"set it before this line; a number is added to the file, or given as --{name}"
            if record := self.context.vocabulary.get(name):
                form = next((each for each in record.forms if each), ("x",))
                remedy = f"it is a word: call it, as in {name}({', '.join(one.lstrip('*') for one in form)})"
            elif scope.section.where == "layer":
                remedy += f"; one that is learned: scalar.{name}(1)"
            if scope.section.where != "layer":
                remedy += f"; what else the data give is declared, as in inputs: {{{name}: tokens}}"
            if option and option.type == "definition":
                remedy = f"define it under `words`; {option.name} takes a {option.help}"
            if option and values:
                remedy += f"; {option.name} takes {' or '.join(values.values())}"
            if name in assigned:
                remedy = "it is set later: give it a first value in `before`, or read it only in layers where it is set"
        known = [k for k in known if k != name]
        ours = field_names.read_name(name, known)
        return unknown("unset", node.place, name, known, ours, title=scope.title, remedy=remedy)

    def constant(self, node: Index, scope: Scope) -> Any:
        """The element `name[index]` of a list of the file, or given to a definition; None where it is no list."""
        name = node.name
        values = scope.names[name] if name in scope.names else scope.constants.get(name)
        if node.index is None or values is None or isinstance(values, Value):
            return None
        self.reads.numbers.add(name)
        return element(node, values, self.looker(scope.constants, scope))

    def evaluate(self, node: Node, constants: Mapping[str, Any], scope: Scope | None = None) -> Any:
        """The constant, or the outcome of the test, that an expression stands for. All of its names count as read."""
        self.reads.numbers.update(names_read(node))
        return evaluate(node, self.looker(constants, scope))

    def looker(self, constants: Mapping[str, Any], scope: Scope | None = None) -> Callable[[Any], Any]:
        """What looks up the names of such an expression."""

        def look(node: Name | Index) -> Any:
            name = node.name
            if isinstance(node, Index):
                return element(node, look(Name(node.place, name)), look)
            if scope is not None and name in scope.names:
                value = scope.names[name]
                value = value.number if isinstance(value, Value) and value.op == "number" else value
                if not isinstance(value, (int, float, str, tuple)):
                    raise FormulaError("not-a-number", node.place, what=f"`{name}`")
                self.reads.line(scope.places.get(name))
                return value
            if name in constants:
                self.reads.numbers.add(name)
                return constants[name]
            if name == "pi":
                return math.pi
            known = [*constants, "pi"]
            raise unknown("unknown-number", node.place, name, known, field_names.read_name(name, known))

        return look

    def history(self, node: Index, scope: Scope) -> Value:
        name, flow, section, stack = node.name, self.flow, scope.section, scope.stack
        if scope.definition is not None:
            remedy = "a definition gets history as an argument: f(x[:])"
            raise FormulaError("unset", node.place, name=name, title=scope.title, remedy=remedy)
        other = name if name in flow.results else self.above(scope) if name == "memory" else ""
        if other:
            name, last = "x", next(s.depth for s in self.context.stacks if s.name == other)
        else:
            if name not in flow.assigned and all(name not in settings for _, settings in flow.history[stack.name]):
                remedy = "set it in `before` or in a layer"
                raise unknown("unset", node.place, name, flow.assigned, title=scope.title, remedy=remedy)
            last = {"before": -1, "layer": section.number - 1}.get(section.where, stack.depth)
        title = section.title
        if last < 0:
            index = ":" if node.index is None else "n"
            raise FormulaError("history-range", node.place, name=name, index=index, title=title, there="none yet")
        if node.index is None:
            return self.listed(node, name, other, self.first_listed(node, scope), last, scope)
        number = as_number(node.index, self.evaluate(node.index, scope.constants, scope))
        if not isinstance(number, int) or not 0 <= number <= last:
            index, there = f"{number:g}", f"{node.name}[0]" + (f" to {node.name}[{last}]" if last else " alone")
            raise FormulaError("history-range", node.place, name=node.name, index=index, title=title, there=there)
        setting = flow.history[other or stack.name][number][1].get(name)
        if setting is None:
            layer = f"layer {number}" if number else "`before`"
            raise FormulaError("history-unset", node.place, name=name, place_name=layer)
        return self.entry(node, name, other, number, setting, scope)

    def first_listed(self, node: Index, scope: Scope) -> int:
        """The layer with which `name[n:]` begins: n, or 0 (`before`) where n is below 0 or not written."""
        if node.first is None:
            return 0
        first = as_number(node.first, self.evaluate(node.first, scope.constants, scope))
        if not isinstance(first, int):
            raise FormulaError("history-first", node.place, name=node.name, first=f"{first:g}")
        return max(0, first)

    def listed(self, node: Index, name: str, other: str, first: int, last: int, scope: Scope) -> Value:
        """The value of `name[first:]`: what the layers from `first` (0: `before`) to `last` that set the name left in
        it, then its present value if this layer has set it."""
        self.entries += max(0, last + 1 - first)
        if self.entries > MOST_ENTRIES:
            raise FormulaError("too-many-entries", node.place, name=name)
        entries: list[Value] = []
        past = self.flow.history[other or scope.stack.name][first : last + 1]
        for number, (section, settings) in enumerate(past, first):
            setting = settings.get(name)
            if setting is not None and setting.section is section:
                entries.append(self.entry(node, name, other, number, setting, scope))
        if not other and name in scope.names:
            self.reads.line(scope.places.get(name))
            entries.append(scope.names[name])
        entries = [e for e in entries if e.op != "number"]
        head = entries[0] if entries else Value("number")
        for entry in entries:
            if (entry.kind, entry.width) != (head.kind, head.width):
                raise FormulaError("widths", node.place, left=head.width, right=entry.width)
        self.reads.names.add(name)
        return Value("list", tuple(entries), "list", head.width, head.sequence, name=name, place=node.place)

    def entry(self, node: Index, name: str, other: str, number: int, setting: Setting, scope: Scope) -> Value:
        """The value that a name had on leaving layer `number`: one for all that read it in a section."""
        self.reads.line(setting.place)
        if setting.value.op == "number":
            return scope.number(setting.value.number, node.place)
        key = id(scope.section), other, name, number
        if key not in self.past:
            self.past[key] = reading(setting.value, "history", name, node.place, number, other)
            scope.section.values.append(self.past[key])
        return self.past[key]

    def tap(self, node: Tap, scope: Scope) -> Value:
        labeled = scope.calls.get(f".{node.call}")
        calls = labeled or scope.calls.get(node.call, [])
        if not calls:
            known = sorted(call.lstrip(".") for call in scope.calls)
            remedy = f"a tap follows its call; calls before this line: {', '.join(known) or 'none'}"
            raise unknown_tap(node, node.call, known, remedy)
        if not labeled and len(calls) > 1:
            raise FormulaError("tap-ambiguous", node.place, call=node.call, count=len(calls), tap=node.tap)
        (call,) = calls
        if not isinstance(call, Frame):
            return tap_of_word(node, call, scope)
        value = call.names.get(node.tap)
        if not isinstance(value, Value) or value.kind == "list":
            known = [name for name, v in call.names.items() if isinstance(v, Value)]
            raise unknown_tap(node, node.tap, known, f"its values: {', '.join(known)}")
        definition = self.context.definition(call.name)
        for line in definition.lines if definition else ():
            if line.name == node.tap:
                self.reads.line(line.place)
        return value

    def unbuilt(self, tree: Node, scope: Scope | None = None) -> None:
        """Check the spelling of what is not built, in `scope` also that its names are set; it counts as read."""
        for node in walk(tree):
            if isinstance(node, CallNode):
                self.known_word(node, scope.visible if scope else len(self.context.definitions))
            elif isinstance(node, (Name, Index)):
                self.reads.names.add(node.name)
                self.reads.numbers.add(node.name)
                if scope is not None:
                    self.known_name(node, scope)

    def known_name(self, node: Name | Index, scope: Scope) -> None:
        context = self.context
        known = {*scope.names, *scope.constants, *context.inputs, *context.stack_names(), "memory", "pi"}
        if scope.definition is None:
            known |= {*context.flow.assigned, *context.flow.now}
        else:
            known |= {line.name for line in scope.definition.lines}
        known |= {d.name for d in context.definitions}
        if node.name not in known:
            ours, title = field_names.read_name(node.name, known), scope.section.title
            remedy = "set it before this line"
            raise unknown("unset", node.place, node.name, known, ours, title=title, remedy=remedy)

    def known_word(self, node: CallNode, visible: int) -> None:
        """The word is known. A definition that is called where nothing is built is used, and what its lines read."""
        definition = self.context.definition(node.word, visible)
        if definition is not None and definition.name not in self.reads.definitions:
            self.reads.definitions.add(definition.name)
            trees = (*definition.defaults.values(), *(line.value for line in definition.lines))
            for part in (part for tree in trees for part in walk(tree)):
                if isinstance(part, CallNode) and not definition.second:
                    self.known_word(part, definition.index)
                elif isinstance(part, (Name, Index)):
                    self.reads.numbers.add(part.name)
        elif definition is None and (node.word in self.context.vocabulary or node.word not in FUNCTIONS):
            record = self.record(node, visible)
            for option in node.options:
                if option.name not in (*record.options, *record.ports, *record.named, "share"):
                    raise unknown_option(record, node.word, option)
                if isinstance(option.value, Name):
                    self.reads.definitions.add(option.value.name)

    def record(self, node: CallNode, visible: int) -> WordRecord:
        """The record of a call's word; the error names the nearest known words, or the word's package."""
        context = self.context
        if node.word in context.vocabulary:
            return context.vocabulary[node.word]
        outside = context.text.extra.get(node.word)
        if outside is not None:
            package = f"the package {outside.package}" if outside.package else "outside, and the file names no package"
            remedy = f"name its package: --use {outside.package or 'PACKAGE'} (in Python: use=[...])"
            raise FormulaError("outside-word", node.head, name=node.word, package=package, remedy=remedy)
        known = [*context.vocabulary, *(d.name for d in context.definitions[:visible]), *FUNCTIONS]
        ours = field_names.word(node.word)
        see = f"\nsee: transformula words{f' {ours.name}' if ours and ours.name in context.vocabulary else ''}"
        raise unknown("unknown-word", node.head, node.word, known, ours, see=see)


def tap_of_word(node: Tap, value: Value, scope: Scope) -> Value:
    """A value made inside a call of a word: one for all that read it."""
    call, taps = value.called, value.called.word.taps
    if node.tap not in taps:
        raise unknown_tap(node, node.tap, taps, f"its taps: {', '.join(taps) or 'none'}")
    if node.tap not in call.taps:
        call.taps.append(node.tap)
    for other in scope.section.values:
        if other.op == "tap" and other.args[0] is value and other.name == node.tap:
            return other
    keys = value.args[len(call.streams) - 1].sequence
    inside = Value("tap", (value,), "scores", 1, value.sequence, name=node.tap, place=node.place, keys=keys)
    if taps[node.tap]:
        width = expression(call.word, taps[node.tap], call.numbers, node.place)
        inside.kind, inside.width, inside.keys = "stream", width, ""
        inside.turns = turns_of_tap(call, node.tap, width)
        inside.sequence = keys if node.tap in call.word.key_taps else value.sequence
    return scope.add(inside)


def unknown_tap(node: Tap, name: str, known: Iterable[str], remedy: str) -> FormulaError:
    return unknown("unknown-tap", node.place, name, known, call=node.call, tap=node.tap, remedy=remedy)


def reading(value: Value, op: str, name: str, place: Place, number: int = 0, stack: str = "") -> Value:
    kind, width, sequence, keys = value.kind, value.width, value.sequence, value.keys
    turns = value.turns
    return Value(op, (), kind, width, sequence, name, number, place=place, stack=stack, keys=keys, turns=turns)


def entering(section: Section, value: Value) -> Value:
    """The value with which a name enters a section: one for all that read it."""
    key = f"{value.stack}.{value.name}" if value.stack else value.name
    if key not in section.reads:
        section.reads[key] = value
        section.values.append(value)
    return section.reads[key]
