"""Same text, same model: the canonical form of a checked model, its hash, the key of its wiring, its equal layers.

The canonical form is the graph as evaluated: numbers folded, defaults written out, local names and lines gone, labels
and definitions' names kept (as the paths of modules), operands in written order. Runs of equal layers are printed once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ..language.check import check
from ..language.graph import OPERATIONS, Architecture, Call, ScoreFormula, Section, Stack, Value
from ..language.messages import FormulaError
from ..language.model_text import StackText
from ..language.options import default_of
from ..language.vocabulary import Vocabulary

WIRING_DEPTH = 12  # wirings are compared at this depth, so that factors made of `depth` agree
MOST_TERMS = 500  # up to which a chain of sums or products is one in the wiring key; `x = x + x`, ten times, has 1,024
MOST_KINDS = 8  # a layer is held against the first of each of so many kinds, the latest first
Pieces = Sequence[Value | str]  # a text in pieces, with values where their texts stand

Steps = Generator[Any, Any, Any]
"""A function that yields the calls it makes, and returns its result; see `deep`."""


def deep(first: Steps) -> Any:
    """The result of a recursive function, however deep it calls itself: 10,000 values one inside the other are no stack
    of calls. It is a generator that yields the calls it would make: `total += yield size(argument)`."""
    waiting, result = [first], None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as done:
            waiting.pop()
            result = done.value
    return result


def option_text(value: Any) -> str:
    """A number has 12 digits; of a formula over scores the numbers are folded in."""
    if isinstance(value, (bool, str)) or value is None:
        return repr(value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def meaning(value: Any) -> str:
    """The same, but of a formula over scores without its name."""
    return str(replace(value, name="")) if isinstance(value, ScoreFormula) else option_text(value)


def written(call: Call, name: str) -> bool:
    """Whether the canonical form writes an option: all but those that came later and are at their defaults."""
    option = call.word.options[name]
    return not option.later or call.options[name] != default_of(call.word.name, option, call.numbers, None)


def listed(items: Sequence[Pieces]) -> list[Value | str]:
    return [piece for n, item in enumerate(items) for piece in ([", "] if n else []) + list(item)]


class Printer:
    """Prints the values of one section: what is used once in place, what is used more often under a number."""

    def __init__(self, values: Sequence[Value], leaves: Mapping[str, Value], prefix: str) -> None:
        self.prefix = prefix
        uses = Counter([*(a for v in values for a in v.args), *leaves.values()])
        uses.update([entry for value in uses if value.op == "list" for entry in value.args])
        self.rows: list[str] = []
        self.names: dict[Value, str] = {}
        for value in values:
            inline = value.op in ("name", "input", "number", "history", "list", "argument")
            if uses[value] > 1 and not inline:
                text = self.text(value)
                self.names[value] = f"%{len(self.names) + 1}"
                self.rows.append(f"{self.names[value]} = {text}")
        self.rows += [f"{name} = {self.text(value)}" for name, value in sorted(leaves.items())]

    def text(self, value: Value) -> str:
        """The value's text, its arguments in place: written from left to right, however deep they stand."""
        written: list[str] = []
        waiting: list[Value | str] = [value]
        while waiting:
            here = waiting.pop()
            if isinstance(here, str):
                written.append(here)
            elif here in self.names:
                written.append(self.names[here])
            else:
                waiting.extend(reversed(self.parts(here)))
        return "".join(written)

    def parts(self, value: Value) -> Pieces:
        match value.op:
            case "number":
                return [option_text(value.number)]
            case "input" | "name":
                return [f"{value.stack}.{value.name}" if value.stack else value.name]
            case "argument":
                return ["x"]
            case "history":
                return [f"{value.stack or value.name}[{value.number:g}]"]
            case "list":
                return ["[", *listed([[v] for v in value.args]), "]"]
            case "neg":
                return ["(-", value.args[0], ")"]
            case "tap":
                return [value.args[0], f".{value.name}"]
            case "call":
                return self.call(value.called, value.args)
        return ["(", value.args[0], f" {OPERATIONS[value.op]} ", value.args[1], ")"]

    def call(self, call: Call, values: Sequence[Value]) -> Pieces:
        streams = len(call.streams)
        arguments: list[Pieces] = [[value] for value in values[:streams]]
        arguments += [[f"{port}=", value] for port, value in zip(call.ports, values[streams:], strict=True)]
        options = [name for name in sorted(call.options) if written(call, name)]
        arguments += [[f"{name}={option_text(call.options[name])}"] for name in options]
        for role, template in call.inner.items():
            inner = Printer(template.values, {"": template.result}, "")
            arguments.append([f"{role}={{{'; '.join(inner.rows)}}}"])
        version = f":{call.word.version}" if call.word.version != 1 else ""
        return [f"{call.word.name}{version}@{call.path.removeprefix(self.prefix)}(", *listed(arguments), ")"]


def section_rows(section: Section, stack: Stack | None) -> list[str]:
    """The canonical lines of a section. A layer's own number stands nowhere in them."""
    prefix = f"{section.stack}." if section.stack else ""
    if section.where == "layer":
        share = stack.share if stack is not None else None
        prefix += f"layers.{share[section.number - 1] if share is not None else section.number}."
    return Printer(section.values, {**section.leaves, **section.asked}, prefix).rows


def canonical(architecture: Architecture, *, output: bool = True) -> str:
    """The canonical form as text. `output=False` leaves the output out, as the hash does."""
    lines: list[str] = []
    for stack in architecture.stacks:
        lines.append(f"stack {stack.name or 'x'}: {'causal' if stack.causal else 'not causal'}, {stack.depth} layers")
        if stack.share is not None:
            lines.append(f"share: {', '.join(map(str, stack.share))}")
        parts = [("before", section_rows(stack.before, stack))]
        for rows, layers in groupby(stack.layers, key=lambda layer: section_rows(layer, stack)):  # noqa: B023
            numbers = [layer.number for layer in layers]
            title = f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {numbers[0]}-{numbers[-1]}"
            parts.append((title, rows))
        parts.append(("after", section_rows(stack.after, stack)))
        for title, rows in parts:
            if rows:
                lines += [f"{title}:", *(f"  {row}" for row in rows)]
    if output:
        lines += ["output:", *(f"  {row}" for row in section_rows(architecture.output, None))]
    return "\n".join(lines) + "\n"


def formula_hash(architecture: Architecture) -> str:
    """16 hexadecimal digits. Equal hashes: equal function and names of parameters, those of the output apart."""
    return hashlib.sha256(canonical(architecture, output=False).encode()).hexdigest()[:16]


class Wiring:
    """Digests of a section's values for the wiring key: definitions opened, sums and products sorted, kinds of norm
    merged, factors that are numbers kept; no labels, options, sizes, dropout; carried names by order of appearance."""

    def __init__(self, section: Section, names: dict[str, str]) -> None:
        self.names = names
        self.known: dict[Value, str] = {}
        self.chains: dict[tuple[Value, str], list[tuple[Value, bool]]] = {}
        for value in section.values:
            if value.op in ("name", "history"):
                self.name(value.name)

    @staticmethod
    def digest(*parts: str) -> str:
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def layer(self, section: Section) -> str:
        """The digest of the whole graph; calls are counted, so that one norm read twice is not two norms."""
        leaves = sorted(f"{self.name(name)}={self.of(value)}" for name, value in section.leaves.items())
        calls = sorted(self.of(v) for v in section.calls() if self.known_by(v.called))
        return self.digest(*leaves, "calls", *calls)

    def known_by(self, call: Call) -> tuple[str, ...]:
        """What counts of a call beside its arguments; () where it is passed over, as those of chance are."""
        if call.word.kind == "chance":
            return ()
        return "norm" if call.word.kind == "norm" else call.word.name, *call.ports

    def name(self, name: str) -> str:
        return self.names.setdefault(name, f"s{len(self.names)}")

    def operands(self, value: Value, op: str) -> Steps:
        """What a value is the sum ("add") or the product ("mul") of, brackets apart, in written order, and whether it
        is subtracted. A chain is taken apart as far as it has MOST_TERMS; beyond, what is added together stays so."""
        if (value, op) not in self.chains:
            operands: list[tuple[Value, bool]] = []
            for n, argument in enumerate(value.args):
                minus = value.op == "sub" and n == 1
                chain = not minus and (argument.op == op or (op == "add" and argument.op == "sub"))
                inner = (yield self.operands(argument, op)) if chain else []
                operands += inner if 0 < len(inner) <= MOST_TERMS else [(argument, minus)]
            self.chains[value, op] = operands
        return self.chains[value, op]

    def leaf(self, value: Value) -> tuple[str, ...]:
        """What a number, a name or a piece of history is known by; () for other values."""
        match value.op:
            case "number":
                return "number", f"{value.number:.6g}"
            case "input" | "name":
                return "name", value.stack, self.name(value.name)
            case "history":
                return "history", value.stack, self.name(value.name), f"{value.number:g}"
        return ()

    def of(self, value: Value) -> str:
        return str(deep(self.steps(value)))

    def steps(self, value: Value) -> Steps:
        if value not in self.known:
            self.known[value] = yield self.make(value)
        return self.known[value]

    def make(self, value: Value) -> Steps:
        leaf, call = self.leaf(value), value.call
        if leaf:
            return self.digest(*leaf)
        known = self.known_by(call) if call is not None else ()
        if call is not None and not known:
            return (yield self.steps(value.args[0]))
        parts: list[str] = []
        if value.op in ("add", "sub", "mul"):
            product = value.op == "mul"
            for operand, minus in (yield self.operands(value, "mul" if product else "add")):
                digest = yield self.steps(operand)
                parts.append(self.digest("neg", digest) if minus else digest)
            return self.digest("product" if product else "sum", *sorted(parts))
        for argument in value.args:
            parts.append((yield self.steps(argument)))
        if call is None:
            return self.digest(value.op, value.name, *parts)
        return self.digest("call", *known, *parts)


class ExactWiring(Wiring):
    """The same with all that a call states: its own kind of norm, chance, options, sizes. Equal digests are equal
    functions; labels still do not count, and so not which calls share weights."""

    def known_by(self, call: Call) -> tuple[str, ...]:
        options = [f"{name}={meaning(call.options[name])}" for name in sorted(call.options) if written(call, name)]
        inner = [f"{role}={Printer(t.values, {'': t.result}, '').rows}" for role, t in call.inner.items()]
        return call.word.name, *call.ports, *options, *inner


def wiring_key(architecture: Architecture) -> str:
    """The key that relatives share: layers' graphs, runs of equal layers once. 16 hexadecimal digits."""
    keys: list[str] = []
    for stack in architecture.stacks:
        names: dict[str, str] = {}
        wirings = [Wiring(section, names).layer(section) for section in stack.layers]
        keys += ["stack", *(key for key, _ in groupby(wirings))]
    return Wiring.digest(*keys)[:16]


def at_wiring_depth(architecture: Architecture, vocabulary: Vocabulary) -> Architecture:
    """A checked model at depth 12, where its stacks can be that deep: wirings are compared at this depth."""
    if architecture.numbers.get("depth") == WIRING_DEPTH:
        return architecture
    values = [value for section in architecture.sections() for value in section.values]
    if not architecture.reads_depth and all(value.op not in ("history", "list") for value in values):
        pairs = zip(architecture.stacks, architecture.text.stacks, strict=True)
        stacks = [stack if "depth" in text.numbers else with_equal_layers(stack, text) for stack, text in pairs]
        known = [stack for stack in stacks if stack is not None]
        if len(known) == len(stacks):
            return replace(architecture, stacks=known)
    try:
        return check(architecture.text.override({"depth": WIRING_DEPTH}), vocabulary)
    except FormulaError:
        return architecture


def with_equal_layers(stack: Stack, text: StackText) -> Stack | None:
    """The stack at depth 12, of the layers that it has; None where these do not tell how it is.

    Nothing reads the depth, the number of a layer or history. What a layer is given then stays the same behind two
    layers of one kind, and what of it is needed before two: any number of these can stand between the first layer and
    the last. A number that layers set may change in each.
    """
    sets_number = any(value is not None and value.op == "number" for s in stack.layers for _, _, value in s.lines)
    between = first_of_kind(stack)[1:-1]
    if sets_number or len(text.layers) > 1 or len(between) < 2 or len({*between}) > 1:
        return None
    first, second, *_, last = stack.layers
    return replace(stack, depth=WIRING_DEPTH, layers=[first, *[second] * (WIRING_DEPTH - 2), last], share=None)


def first_of_kind(stack: Stack) -> list[int]:
    """For each layer, in order, the number of the first that is the same but for the names of its parameters."""
    kinds: list[tuple[int, list[Any]]] = []
    numbers: list[int] = []
    for section in stack.layers:
        signature = _signature(section)
        first = next((number for number, known in reversed(kinds[-MOST_KINDS:]) if known == signature), None)
        if first is None:
            kinds.append((section.number, signature))
        numbers.append(first or section.number)
    return numbers


def _signature(section: Section) -> list[Any]:
    """All of a section but names of parameters, values by their places; what some layers share equals nothing."""
    places: dict[Value, int] = {}

    def of(value: Value) -> Any:
        if value in places:
            return places[value]
        return facts(value) if value.op in ("number", "list", "argument") else object()

    def facts(value: Value) -> tuple[Any, ...]:
        frames = [(f.name, f.role) if f.share is None else object() for f in value.frames]
        return (
            value.op, id(value.place), value.width, value.kind, value.name, value.number, value.stack, value.sequence,
            value.keys, [of(a) for a in value.args], frames, value.call and _call(value.call),
        )  # fmt: skip

    values = []
    for n, value in enumerate(section.values):
        values.append(facts(value))
        places[value] = n
    named = [sorted((name, of(v)) for name, v in names.items()) for names in (section.leaves, section.asked)]
    lines = [(id(place), value and of(value)) for place, _, value in section.lines]
    return [section.formula, values, sorted(section.reads), named, section.keeps, lines]


def _call(call: Call) -> Any:
    inner = {
        role: [(v.op, v.name, v.number, v.width, v.call and (v.call.word.name, v.call.options)) for v in inside.values]
        for role, inside in call.inner.items()
    }
    own = id(call.word), call.options, call.role, call.streams, call.ports, call.given, inner
    return own if call.share is None else object()
