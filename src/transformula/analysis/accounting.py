"""What a model costs, from its graph alone: shapes, parameters, FLOPs and memory, for each line of the formula.

    parameters  numbers that are learned; a module called twice is counted once, where it is called first
    active      those of them that one position uses: fewer where each uses a few of many experts
    FLOPs       floating-point operations a token of the matrix products (2 for a multiplication and an addition); the
                backward pass costs twice the forward pass. Attention is counted at the mean span: the mean number of
                keys that a query sees, (length + 1) / 2 in a causal stack without a window
    activations bytes kept for the backward pass: what the words state, and the factors of products of streams; a tensor
                that several calls of a formula keep is counted once
    cache       bytes kept for each past position in step-by-step decoding; those of keys and values of another
                sequence, an encoder's result, apart, for each position of that one

All follow from the words' records; no tensor is made. A test holds the parameters to the built module.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import Any

from ..errors import InputError
from ..language.graph import Architecture, Section, Value
from ..language.numbers import evaluate_text
from ..language.options import sizes_of
from ..plain import TextPage, by_keys, python_tree
from .kept import kept_values
from .lines import text_of
from .receptive_field import back_of, looks_ahead
from .residual_path import line_of


@dataclass
class Costs:
    """The costs of one line, of one evaluation of it.

    active_parameters is the part of the parameters that one position uses (tables count whole); embeddings the part
    that stands in tables of inputs; FLOPs are those of a token; activation_bytes those of the whole batch; cache_bytes
    those of a position of one row, memory_bytes those of a position of another sequence that the row reads.
    """

    parameters: int = 0
    active_parameters: int = 0
    embeddings: int = 0
    flops_forward: float = 0
    flops_backward: float = 0
    activation_bytes: float = 0
    cache_bytes: float = 0
    memory_bytes: float = 0

    def add(self, other: Costs, times: int = 1) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + times * value)

    @property
    def data(self) -> dict[str, int | float]:
        return {name: int(value) if value == int(value) else value for name, value in vars(self).items()}

    @property
    def cells(self) -> list[str]:
        from ..cost.words import AMOUNTS, BYTES, in_units

        return [
            f"{self.parameters:,}" if self.parameters else "",
            f"{self.active_parameters:,}" if self.parameters else "",
            in_units(self.flops_forward, AMOUNTS),
            in_units(self.flops_backward, AMOUNTS),
            in_units(self.activation_bytes, BYTES),
            in_units(self.cache_bytes, BYTES),
        ]


@dataclass
class CostRow:
    """One line of a formula; `section` names the `count` equal ones that it stands for ("layers 1-12")."""

    line: str
    shape: str
    costs: Costs
    section: str = ""
    count: int = 1

    @property
    def data(self) -> dict[str, Any]:
        return {**by_keys(self, "section line shape count"), **self.costs.data}

    @property
    def cells(self) -> list[str]:
        return [f"  {self.line if len(self.line) <= 60 else self.line[:57] + '...'}", self.shape, *self.costs.cells]


def summed(rows: Iterable[CostRow], times: int) -> Costs:
    """The costs of some lines together, so many times."""
    total = Costs()
    for row in rows:
        total.add(row.costs, times)
    return total


@dataclass
class Summary(TextPage):
    """The costs of a model: its `repr` is the table, `.data` the same as plain data."""

    name: str
    rows: list[CostRow]
    totals: Costs
    length: int
    batch: int
    number_bytes: int
    modules: dict[str, int] = field(default_factory=dict)  # path -> how many parameters are its own
    split: Any = None  # the plan by which its matrices are split among devices (`tensor_plan`), where that was asked

    @property
    def flops_per_token(self) -> float:
        """Forward and backward."""
        return self.totals.flops_forward + self.totals.flops_backward

    @property
    def data(self) -> dict[str, Any]:
        """Plain data: `rows` (costs of one evaluation, and `count`), `totals`, and what was assumed."""
        totals = self.totals.data
        return {
            **by_keys(self, "name length batch bytes_per_number=number_bytes rows"),
            "totals": {
                **totals,
                "parameters_without_embeddings": totals["parameters"] - totals["embeddings"],
                "parameter_bytes": totals["parameters"] * self.number_bytes,
                "flops_per_token": totals["flops_forward"] + totals["flops_backward"],
                "cache_bytes_row": totals["cache_bytes"] * self.length,
            },
            **({} if self.split is None else {"split": self.split.data}),
        }

    def __repr__(self) -> str:
        from ..cost.words import AMOUNTS, bytes_in_words, in_units

        table = [["", "result", "parameters", "active", "FLOPs/token", "backward", "activations", "cache/position"]]
        for (section, count), group in groupby(self.rows, key=lambda row: (row.section, row.count)):
            rows = list(group)
            table.append([section + (f" (each, {count} times)" if count > 1 else ""), *[""] * 7])
            table += [row.cells for row in rows]
            if count > 1:
                sums = {"one layer": summed(rows, 1)} if len(rows) > 1 else {}
                sums[f"{count} layers"] = summed(rows, count)
                table += [[f"  {name}", "", *costs.cells] for name, costs in sums.items()]
        table.append(["whole model", "", *self.totals.cells])
        if self.totals.active_parameters == self.totals.parameters:
            table = [[*cells[:3], *cells[4:]] for cells in table]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        widths[0] = max(len(cells[0]) for cells in table if any(cells[1:]))
        size = f"length {self.length:,}, batch {self.batch:,}, {self.number_bytes} bytes a number"
        layout = "  ".join(f"{{:{'>' if n > 1 else '<'}{width}}}" for n, width in enumerate(widths))
        lines = [layout.format(*cells).rstrip() for cells in table]
        totals = self.data["totals"]
        last = (
            f"{parameters_in_words(totals)}; {in_units(totals['flops_per_token'], AMOUNTS)} FLOPs a token, forward and"
            " backward"
        )
        if cache := totals["cache_bytes_row"]:
            last += f"; cache of a whole row {bytes_in_words(cache)}"
        if memory := totals["memory_bytes"]:
            last += f", and {bytes_in_words(memory)} for each position of another sequence that it reads"
        plan = [] if self.split is None else ["", repr(self.split)]
        return "\n".join([f"{self.name or 'model'}: {size}", *lines, last, *plan])


def parameters_in_words(totals: Mapping[str, Any]) -> str:
    """How many parameters there are: all, those that a position uses where it is not all, those without tables."""
    active = totals["active_parameters"]
    some = f" {active:,} active," if active != totals["parameters"] else ""
    without = totals["parameters_without_embeddings"]
    return f"{totals['parameters']:,} parameters,{some} {without:,} without embeddings"


def summary(architecture: Architecture, length: int | None = None, batch: int = 1, number_bytes: int = 4) -> Summary:
    """Count what a model costs, without making it.

    length        of the sequence; by default `usual_length`
    batch         rows, for the activations' bytes
    number_bytes  bytes of a number: 4 for float32, 2 for bfloat16

    Raises InputError for a length, batch or number of bytes that is not positive.
    """
    length = usual_length(architecture) if length is None else length
    for what, value in (("length", length), ("batch", batch), ("number_bytes", number_bytes)):
        if value < 1:
            raise InputError(f"{what} must be at least 1; given: {value}")
    counter = Counter(architecture, length, batch, number_bytes)
    sections = [(section, stack.causal) for stack in architecture.stacks for section in stack.sections()]
    sections.append((architecture.output, architecture.main.causal))
    rows: list[CostRow] = []
    for (_, _, first), run in groupby(sections, key=lambda pair: (pair[0].stack, pair[0].where, counter.rows(*pair))):
        alike = [section for section, _ in run]
        title = alike[0].title
        if len(alike) > 1:
            before, _, number = title.rpartition("layer ")
            title = f"{before}layers {number}-{alike[-1].number}"
        rows += [replace(row, section=title, count=len(alike)) for row in first]
    totals = Costs()
    for row in rows:
        totals.add(row.costs, row.count)
    return Summary(architecture.name, rows, totals, length, batch, number_bytes, counter.modules)


def flops_per_unit(architecture: Architecture) -> float:
    """FLOPs of training on a token, forward and backward; of a model that reads pictures alone, on a picture."""
    made = summary(architecture)
    return made.flops_per_token * (made.length if architecture.inputs == ["image"] else 1)


def usual_length(architecture: Architecture) -> int:
    """The model's `context`; of one that reads pictures alone the rows of its learned positions, if it has some."""
    if architecture.inputs == ["image"]:
        calls = [value.called for section in architecture.sections() for value in section.calls()]
        rows = [int(call.options["rows"]) for call in calls if call.name == "positions"]
        if rows:
            return max(rows)
    return int(architecture.numbers["context"])


class Counter:
    """Counts the lines of sections; knows which modules were counted already."""

    def __init__(self, architecture: Architecture, length: int, batch: int, number_bytes: int) -> None:
        self.length, self.batch, self.number_bytes = length, batch, number_bytes
        calls = (v.called for s in architecture.sections() for v in s.calls())
        self.inputs = {call.path for call in calls if call.word.kind == "input"}
        self.modules = {path: sum(sizes.values()) for path, sizes in module_sizes(architecture).items()}
        self.active = {path: sum(sizes.values()) for path, sizes in module_sizes(architecture, active=True).items()}
        self.uncounted = dict(self.modules)
        self.kept: set[Value] = set()
        self.decoding = kept_values(architecture)

    def rows(self, section: Section, causal: bool) -> list[CostRow]:
        costs = {n: Costs() for n, (_, _, value) in enumerate(section.lines) if value}
        for value in section.values:
            # a value that stands in no line of its own (it was read from elsewhere) costs nothing
            index = line_of(section, value)
            if index is not None:
                costs.setdefault(index, Costs()).add(self.value(value, causal))
        return [
            CostRow(text_of(place), shape(value) if value else "", costs[n])
            for n, (place, _, value) in enumerate(section.lines)
            if n in costs
        ]

    def value(self, value: Value, causal: bool) -> Costs:
        costs, call = Costs(), value.call
        factors: list[Value] = []
        if value.op in ("mul", "div") and all(a.op != "number" for a in value.args):
            factors = [a for a in value.args if a.kind == "stream"]
        elif value.op == "pow":
            factors = [value.args[0]]
        width = sum(a.width for a in factors if self.once(a))
        costs.activation_bytes = width * self.batch * self.length * self.number_bytes
        if call is None:
            return costs
        # an option of a word may be called length (a convolution's): the sequence's is `positions` too
        names = {**call.numbers, "length": self.length, "span": self.span(value, causal), **call.options}
        names["positions"] = self.length
        costs.flops_forward = evaluate_text(call.word.flops, names)
        costs.flops_backward = 2 * costs.flops_forward
        costs.activation_bytes = self.saved_numbers(value, names) * self.batch * self.length * self.number_bytes
        kept = self.decoding[call].values() if call in self.decoding else ()
        if kept:  # what several calls read is counted where it is read first
            numbers = sum(one.numbers(self.length) for one in {*kept} if one.owner is call)
        else:
            numbers = evaluate_text(call.word.state, names)
        if value.reads_across:  # of another sequence nothing grows with the past
            costs.memory_bytes = numbers * self.number_bytes
        elif causal:
            costs.cache_bytes = numbers * self.number_bytes
        self.count(call.path, costs)
        costs.embeddings = costs.parameters if call.path in self.inputs else 0
        for template in call.inner.values():
            for inner in (v.call for v in template.values if v.call is not None):
                names = {**inner.numbers, "length": self.length, "span": self.length}
                costs.flops_forward += evaluate_text(inner.word.flops, names)
                self.count(f"{call.path}.{inner.path}", costs)
        return costs

    def count(self, path: str, costs: Costs) -> None:
        costs.parameters += self.uncounted.pop(path, 0)
        costs.active_parameters += self.active.pop(path, 0)

    def saved_numbers(self, value: Value, names: dict[str, Any]) -> float:
        """What a call keeps for the backward pass, a position: nothing that another call has kept."""
        call = value.called
        tensors = {"y": value, **dict(zip(call.streams, value.args, strict=False))}
        total = 0.0
        for term in terms_of(call.word.saved):
            if term in tensors and tensors[term].kind == "stream":
                total += names.get(term, value.width) if self.once(tensors[term]) else 0
            elif term != "y" or "y" in names:  # else the result is a coefficient, one for all positions
                total += evaluate_text(term, names)
        return total

    def once(self, value: Value) -> bool:
        """Whether a tensor is met for the first time among those that are kept."""
        new = value not in self.kept
        self.kept.add(value)
        return new

    def span(self, value: Value, causal: bool) -> float:
        """The mean number of keys that a query sees: of another sequence, all."""
        call, length = value.called, self.length
        window = back_of(call) + 1
        if call.word.reach != "past" or value.reads_across or (not causal and math.isinf(window)):
            return length
        if window >= length:
            return length if looks_ahead(call) else (length + 1) / 2
        # the first `window` queries see 1, 2, ..., window keys, the others `window`; ahead of them as many as behind
        behind = float(window * (window + 1) / 2 + (length - window) * window) / length
        return 2 * behind - 1 if looks_ahead(call) else behind


@lru_cache(maxsize=256)
def terms_of(expression: str) -> tuple[str, ...]:
    """The terms of a sum: "x + 2 * hidden" is x and 2 * hidden."""

    def terms(node: ast.expr) -> tuple[str, ...]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return *terms(node.left), *terms(node.right)
        return (ast.unparse(node),)

    return terms(python_tree(expression, mode="eval").body)


def module_sizes(architecture: Architecture, active: bool = False) -> dict[str, dict[str, int]]:
    """Path of every module -> its own parameters -> how many numbers each holds, or with `active`, how many of them a
    position uses. A module of two faces has both's."""
    sizes_of_modules: dict[str, dict[str, int]] = {}
    for outer in (v.called for section in architecture.sections() for v in section.calls()):
        inner = [v.call for template in outer.inner.values() for v in template.values if v.call is not None]
        for path, call in [(outer.path, outer), *((f"{outer.path}.{c.path}", c) for c in inner)]:
            used = call.word.active.items() if active else ()
            sizes = {**sizes_of(call), **{name: evaluate_text(text, call.numbers) for name, text in used}}
            for name, size in sizes.items():
                if size:
                    module = sizes_of_modules.setdefault(path, {})
                    module[name] = max(module.get(name, 0), int(size))
    return sizes_of_modules


def numbers_by_role(architecture: Architecture) -> dict[str, int]:
    """How many parameters play which role in an optimizer: those in layers are its matrices, and the others tables.
    Norms and biases in layers, of which it may keep more, are less than a hundredth of these."""
    numbers = {"matrix": 0, "table": 0}
    for path, sizes in module_sizes(architecture).items():
        numbers["matrix" if "layers." in path else "table"] += sum(sizes.values())
    return numbers


def shape(value: Value) -> str:
    other = {"coefficient": f"({value.width:,})", "scores": "(batch, heads, length, length)", "number": ""}
    return other.get(value.kind, f"(batch, length, {value.width:,})")
