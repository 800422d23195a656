"""Same text, same model: the canonical form of a checked model, its hash, and the key of its wiring.

The canonical form is the graph as evaluated: numbers folded, defaults written out, local names and lines gone, labels
and definitions' names kept (as the paths of modules), operands in written order. Runs of equal layers are printed once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ..language.check import check
from ..language.depth import Steps, deep
from ..language.graph import OPERATIONS, Architecture, Call, Section, Stack, Value
from ..language.messages import FormulaError
from ..language.model_file import ModelText
from ..language.vocabulary import Vocabulary

WIRING_DEPTH = 12
"""Wirings are compared at this depth, so that factors made of `depth` agree."""

MOST_TERMS = 500
"""A chain of sums or products is one in the wiring key up to so many terms; `x = x + x`, ten times, has 1,024."""


def number_text(number: Any) -> str:
    """A number as it stands in the canonical form: 12 digits."""
    return str(number) if isinstance(number, int) else f"{number:.12g}"


def listed(items: Sequence[Sequence[Value | str]]) -> list[Value | str]:
    """Items, each in pieces, with commas between them."""
    return [piece for n, item in enumerate(items) for piece in ([", "] if n else []) + list(item)]


class Printer:
    """Prints the values of one section: what is used once in place, what is used more often under a number."""

    def __init__(self, values: Sequence[Value], leaves: Mapping[str, Value], prefix: str) -> None:
        self.prefix = prefix
        self.uses: dict[int, int] = {}
        for value in [*(a for v in values for a in v.args), *leaves.values()]:
            self.count(value)
        self.rows: list[str] = []
        self.names: dict[int, str] = {}
        for value in values:
            inline = value.op in ("name", "input", "number", "history", "list", "argument")
            if self.uses.get(id(value), 0) > 1 and not inline:
                text = self.text(value)
                self.names[id(value)] = f"%{len(self.names) + 1}"
                self.rows.append(f"{self.names[id(value)]} = {text}")
        self.rows += [f"{name} = {self.text(value)}" for name, value in sorted(leaves.items())]

    def count(self, value: Value) -> None:
        self.uses[id(value)] = self.uses.get(id(value), 0) + 1
        if value.op == "list" and self.uses[id(value)] == 1:
            for entry in value.args:
                self.count(entry)

    def text(self, value: Value) -> str:
        """The value's text, its arguments in place: written from left to right, however deep they stand."""
        written: list[str] = []
        waiting: list[Value | str] = [value]
        while waiting:
            here = waiting.pop()
            if isinstance(here, str):
                written.append(here)
            elif id(here) in self.names:
                written.append(self.names[id(here)])
            else:
                waiting.extend(reversed(self.parts(here)))
        return "".join(written)

    def parts(self, value: Value) -> list[Value | str]:
        """A value's text as its pieces and, where their texts stand, its arguments."""
        match value.op:
            case "number":
                return [number_text(value.number)]
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
                return self.call(value)
        return ["(", value.args[0], f" {OPERATIONS[value.op]} ", value.args[1], ")"]

    def call(self, value: Value) -> list[Value | str]:
        call = value.called
        arguments: list[list[Value | str]] = [[a] for a in value.args[: len(call.streams)]]
        ports = zip(call.ports, value.args[len(call.streams) :], strict=True)
        arguments += [[f"{port}=", argument] for port, argument in ports]
        arguments += [[f"{name}={self.option(call, name)}"] for name in sorted(call.options)]
        for role, template in call.inner.items():
            inner = Printer(template.values, {"": template.result}, "")
            arguments.append([f"{role}={{{'; '.join(inner.rows)}}}"])
        version = f":{call.word.version}" if call.word.version != 1 else ""
        path = call.path.removeprefix(self.prefix)
        return [f"{call.word.name}{version}@{path}(", *listed(arguments), ")"]

    @staticmethod
    def option(call: Call, name: str) -> str:
        value = call.options[name]
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return repr(value)
        if isinstance(value, (int, float)):
            return number_text(value)
        return str(value)  # a formula over scores, its numbers folded in


def section_rows(section: Section, stack: Stack | None) -> list[str]:
    """The canonical lines of a section. A layer's own number stands nowhere in them."""
    number = section.number
    if stack is not None and stack.share is not None and section.where == "layer":
        number = stack.share[section.number - 1]
    prefix = f"{section.stack}." if section.stack else ""
    if section.where == "layer":
        prefix += f"layers.{number}."
    return Printer(section.values, {**section.leaves, **section.asked}, prefix).rows


def runs(stack: Stack) -> list[tuple[int, int, list[str]]]:
    """Runs of equal layers: (first, last, canonical lines)."""
    alike = groupby(stack.layers, key=lambda section: section_rows(section, stack))
    groups = [(rows, [section.number for section in layers]) for rows, layers in alike]
    return [(numbers[0], numbers[-1], rows) for rows, numbers in groups]


def canonical(architecture: Architecture, *, output: bool = True) -> str:
    """The canonical form as text. `output=False` leaves the output out, as the hash does."""
    lines: list[str] = []
    for stack in architecture.stacks:
        lines.append(f"stack {stack.name or 'x'}: {'causal' if stack.causal else 'not causal'}, {stack.depth} layers")
        if stack.share is not None:
            lines.append(f"share: {', '.join(map(str, stack.share))}")
        parts = [("before", section_rows(stack.before, stack))]
        for first, last, rows in runs(stack):
            parts.append((f"layer {first}" if first == last else f"layers {first}-{last}", rows))
        parts.append(("after", section_rows(stack.after, stack)))
        for title, rows in parts:
            if rows:
                lines += [f"{title}:", *(f"  {row}" for row in rows)]
    if output:
        lines += ["output:", *(f"  {row}" for row in section_rows(architecture.output, None))]
    return "\n".join(lines) + "\n"


def formula_hash(architecture: Architecture) -> str:
    """SHA-256 of the canonical form without output and hooks, 16 hexadecimal digits.

    Equal hashes: equal function and names of parameters, those of the output apart.
    """
    return hashlib.sha256(canonical(architecture, output=False).encode()).hexdigest()[:16]


class Operands:
    """The operands of chains of sums or products: what they are the sum or the product of, brackets apart."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], list[tuple[Value, bool]]] = {}

    def of(self, value: Value, op: str) -> Steps:
        """The operands of a value, "add" or "mul", in written order, and whether each is subtracted. A chain is taken
        apart as far as it has MOST_TERMS; beyond, what is added together stays together."""
        if op == "add" and value.op == "sub":
            left, right = value.args
            return [*(yield self.inner(left, op)), (right, True)]
        found: list[tuple[Value, bool]] = []
        for argument in value.args:
            found += yield self.inner(argument, op)
        return found

    def inner(self, value: Value, op: str) -> Steps:
        """The operands that one argument of a sum or a product stands for."""
        if value.op == op or (op == "add" and value.op == "sub"):
            key = id(value), op
            if key not in self.known:
                self.known[key] = yield self.of(value, op)
            if len(self.known[key]) <= MOST_TERMS:
                return self.known[key]
        return [(value, False)]


class Wiring:
    """Digests of a section's values for the wiring key: definitions opened, sums and products sorted, kinds of norm
    merged, factors that are numbers kept; no labels, options, sizes, dropout; carried names by order of appearance."""

    def __init__(self, section: Section, names: dict[str, str]) -> None:
        self.names = names
        self.known: dict[int, str] = {}
        self.operands = Operands()
        for value in section.values:
            if value.op in ("name", "history"):
                self.name(value.name)

    @staticmethod
    def digest(*parts: str) -> str:
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def name(self, name: str) -> str:
        return self.names.setdefault(name, f"s{len(self.names)}")

    def of(self, value: Value) -> str:
        return str(deep(self.steps(value)))

    def steps(self, value: Value) -> Steps:
        if id(value) not in self.known:
            self.known[id(value)] = yield self.make(value)
        return self.known[id(value)]

    def make(self, value: Value) -> Steps:
        match value.op:
            case "number":
                return self.digest("number", f"{value.number:.6g}")
            case "input" | "name":
                return self.digest("name", value.stack, self.name(value.name))
            case "history":
                return self.digest("history", value.stack, self.name(value.name), f"{value.number:g}")
            case "add" | "sub" | "mul":
                op = "mul" if value.op == "mul" else "add"
                digests: list[str] = []
                for operand, minus in (yield self.operands.of(value, op)):
                    digest = yield self.steps(operand)
                    digests.append(self.digest("neg", digest) if minus else digest)
                return self.digest("product" if op == "mul" else "sum", *sorted(digests))
        call = value.call
        if value.word_kind == "chance":
            return (yield self.steps(value.args[0]))
        parts = []
        for argument in value.args:
            parts.append((yield self.steps(argument)))
        if call is None:
            return self.digest(value.op, value.name, *parts)
        return self.digest("call", "norm" if call.word.kind == "norm" else call.word.name, *call.ports, *parts)


def layer_wiring(section: Section, names: dict[str, str]) -> str:
    """The digest of one layer's graph; calls are counted, so that one norm read twice is not two norms."""
    wiring = Wiring(section, names)
    leaves = sorted(f"{wiring.name(name)}={wiring.of(value)}" for name, value in section.leaves.items())
    calls = sorted(wiring.of(v) for v in section.calls() if v.word_kind != "chance")
    return Wiring.digest(*leaves, "calls", *calls)


def wiring_key(architecture: Architecture) -> str:
    """The key that relatives share: layers' graphs, runs of equal layers once. 16 hexadecimal digits."""
    keys: list[str] = []
    for stack in architecture.stacks:
        names: dict[str, str] = {}
        keys.append("stack")
        wirings = [layer_wiring(section, names) for section in stack.layers]
        keys += [key for key, _ in groupby(wirings)]
    return Wiring.digest(*keys)[:16]


def check_for_wiring(text: ModelText, vocabulary: Vocabulary) -> Architecture:
    """A model file, checked at depth 12 where its stack can be that deep: wirings are compared at this depth."""
    try:
        return check(text.override({"depth": WIRING_DEPTH}), vocabulary)
    except FormulaError:
        return check(text, vocabulary)
