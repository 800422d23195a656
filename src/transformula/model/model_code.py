"""The whole model as straight-line functions: `before`, the layers in order, `after`, stack by stack, then `output`.

    forward(self, INPUTS, lengths)                the whole in one pass
    fixed(self, INPUTS, lengths)                  in decoding, once: what does not grow (an encoder's result)
    step(self, INPUTS, fixed, states, at)         in decoding, chunk by chunk: the rest

Names and history are local registers between calls of the sections; a value is let go after its last reader.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..language.graph import Architecture, Section, Stack
from ..language.model_file import INPUTS
from .codegen import Body, Piece, load, module_at
from .files import Span, register
from .sequences import (
    Key,
    check_lengths,
    decoded,
    description,
    entering,
    input_sequences,
    inputs_of,
    padded,
    real_positions,
    stack_of,
)

IDS = ("tokens", "source", "types", "targets", "document", "rank")
"""Inputs that are whole numbers, one a position."""


@dataclass
class Task:
    """One section to be run: the values it is given and those it makes, as numbers."""

    index: int
    given: list[int]
    made: list[int]
    grows: bool


@dataclass
class Plan:
    """Who reads what. Values between sections are numbers here.

    tasks     the sections, in order
    inputs    the model's inputs and their values; `growing`: those of the sequence that is decoded step by step
    reals     sequences whose real positions something must know, and their values
    outputs   the names of the output, and their values
    fixed     values that no decoded position changes and that something which grows reads
    """

    tasks: list[Task] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    growing: set[str] = field(default_factory=set)
    reals: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    fixed: list[int] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> int:
        self.count += 1
        return self.count - 1

    def chosen(self, mode: str) -> list[Task]:
        """The sections that a function runs."""
        return [t for t in self.tasks if mode == "forward" or t.grows == (mode == "step")]


def plan_of(architecture: Architecture, decoding: bool = False) -> Plan:
    """The plan of a model; for decoding that of its two functions."""
    sections, plan = architecture.sections(), Plan()
    growing_sequences = decoded(architecture)
    now: dict[Key, int] = {}
    grow: set[int] = set()
    wanted = {key for s in sections for key, _ in given_to(architecture, s, decoding) if key[0] == "past"}
    sequences = input_sequences(architecture)
    for index, section in enumerate(sections):
        stack = stack_of(architecture, section)
        if section.where == "before":
            now = {key: value for key, value in now.items() if key[0] in ("input", "result", "past", "real")}
        given: list[int] = []
        for key, values in given_to(architecture, section, decoding):
            if key not in now and key[0] == "input":
                now[key] = plan.inputs[key[1]] = plan.fresh()
                if values[0].sequence in growing_sequences:
                    plan.growing.add(key[1])
                    grow.add(now[key])
            elif key not in now and key[0] == "real":
                for name in inputs_of(description(key[1], architecture)):
                    if name not in plan.inputs:
                        now["input", name] = plan.inputs[name] = plan.fresh()
                        if any(name == n and s in growing_sequences for s, n in sequences.items()):
                            plan.growing.add(name)
                            grow.add(plan.inputs[name])
                now[key] = plan.reals[key[1]] = plan.fresh()
            given.append(now[key])
        names = leaving(section)
        made = [plan.fresh() for _ in names]
        # what is made of nothing that grows belongs to what is run once, the output apart
        grows = any(g in grow for g in given) or section.where == "output"
        if names:
            plan.tasks.append(Task(index, given, made, grows))
        for name, value in zip(names, made, strict=True):
            now["now", name] = value
            if grows:
                grow.add(value)
        for key in wanted:
            if key[1] == stack.name and key[3] == section.number and section.where in ("before", "layer"):
                if ("now", key[2]) in now:
                    now[key] = now["now", key[2]]
        if section.where == "after" and ("now", "x") in now:
            now["result", stack.name] = now["now", "x"]
    plan.outputs = {name: now["now", name] for name in leaving(sections[-1])}
    if not plan.outputs or len(plan.outputs) < len(sections[-1].leaves):
        raise InputError("the output is a number: it must be made of what the layers leave")
    read = {g for t in plan.chosen("step") for g in t.given}
    made_once = {m for t in plan.chosen("fixed") for m in t.made} | set(plan.reals.values())
    once = {v for name, v in plan.inputs.items() if name not in plan.growing}
    plan.fixed = sorted(read & (made_once | once))
    return plan


def given_to(architecture: Architecture, section: Section, decoding: bool) -> list[tuple[Key, Any]]:
    """What a section's function is given, in order: see `sequences.entering`; real positions that can be padded."""
    causal = stack_of(architecture, section).causal
    found = entering(section, causal, decoding, decoded(architecture))
    return [(k, v) for k, v in found if k[0] != "real" or padded(description(k[1], architecture))]


def model_code(architecture: Architecture, functions: dict[int, Any], mode: str) -> FunctionType:
    """One of the functions above.

    functions  by the section's index: what its function is, or for a layer the name of its method ("" for `forward`)
    """
    sections = architecture.sections()
    rows = [s.title for s in sections]
    file = register(architecture.name or "model", "\n".join(rows) + "\n")
    plan = plan_of(architecture, mode != "forward")
    tasks = plan.chosen(mode)
    start = row_span(rows, 0)
    results = list(plan.outputs.values()) if mode != "fixed" else plan.fixed
    reals = plan.reals if mode != "step" else {}
    uses: dict[int, int] = {}
    for value in [g for t in tasks for g in t.given] + results:
        uses[value] = uses.get(value, 0) + 1
    body = Body(["self"])
    registers: dict[int, str] = {}
    inputs = {n: v for n, v in plan.inputs.items() if mode == "forward" or (n in plan.growing) == (mode == "step")}
    checked = {n: v for n, v in inputs.items() if n in input_sequences(architecture).values() and mode != "step"}
    for name, value in inputs.items():
        # an input is read once more by its check, and by what tells its real positions
        uses[value] = uses.get(value, 0) + 1_000_000
        registers[value] = body.parameter(uses[value], name if name in INPUTS else "")
    if mode == "step":
        for value in plan.fixed:
            uses.setdefault(value, 0)
        body.parameters += ["fixed", "states", "at"]
        for place, value in enumerate(plan.fixed):
            piece = Piece(subscript("fixed", place, start))
            registers[value] = body.assign(piece, [uses[value]], start)[0]
    else:
        body.parameters.append("lengths")
        body.defaults = 1
    for name, value in inputs.items():
        if name in IDS:
            call(body, check_ids, [load(registers[value], start), ast.Constant(name, **start)], start)
    if mode != "step" and checked:
        listed = ast.Tuple([ast.Constant(n, **start) for n in checked], ast.Load(), **start)
        given = [load(registers[v], start) for v in checked.values()]
        call(body, check_lengths, [load("lengths", start), listed, *given], start)
    for sequence, value in reals.items():
        described = description(sequence, architecture)
        read = [n for n in dict.fromkeys(inputs_of(described)) if n in inputs]
        told = [load("lengths", start), constant(described, start), constant(tuple(read), start)]
        told += [load(registers[inputs[n]], start) for n in read]
        found_real = ast.Call(load(body.object(real_positions), start), told, [], **start)
        registers[value] = body.assign(Piece(found_real), [uses.get(value, 0)], start)[0]
    for task in tasks:
        section, span = sections[task.index], row_span(rows, task.index)
        arguments: list[ast.expr] = [load(registers[g], span) for g in task.given]
        if mode == "step":
            arguments += [subscript("states", task.index, span), load("at", span)]
        found = functions[task.index]
        if isinstance(found, tuple):
            path, method = found
            function: ast.expr = module_at(path, span)
            if method:
                function = ast.Attribute(function, method, ast.Load(), **span)
        else:
            function = load(body.object(found), span)
            owner = layer_path(architecture, section) if section.where == "layer" else ()
            arguments.insert(0, module_at(owner, span))
        if section.where == "layer" and "policy" in architecture.hooks:
            entering = [k[1] if k[0] == "now" else "" for k, _ in given_to(architecture, section, mode != "forward")]
            before = len(arguments) - len(entering) - (2 if mode == "step" else 0)
            entering = [""] * before + entering + [""] * (len(arguments) - before - len(entering))
            arguments = [
                module_at(policy_path(stack_of(architecture, section)), span),
                function,
                *(constant(c, span) for c in (section.number, mode == "step")),
                *(constant(c, span) for c in (tuple(entering), tuple(leaving(section)))),
                *arguments,
            ]
            function = load(body.object(under_policy), span)
        piece = Piece(ast.Call(function, arguments, [], **span), [registers[g] for g in task.given])
        names = body.assign(piece, [uses.get(m, 0) for m in task.made], span)
        registers.update(zip(task.made, names, strict=True))
    span = row_span(rows, len(rows) - 1)
    trees: list[ast.expr] = [load(registers[v], span) for v in results]
    tree: ast.expr
    if mode == "fixed":
        tree = ast.List(trees, ast.Load(), **span)
    elif len(trees) > 1:
        tree = ast.Dict([ast.Constant(name, **span) for name in plan.outputs], trees, **span)
    else:
        tree = trees[0]
    body.statements.append(ast.Return(tree, **span))
    return body.function(mode, file)


def call(body: Body, function: Any, arguments: list[ast.expr], span: Span) -> None:
    """A statement that calls a function."""
    tree = ast.Call(load(body.object(function), span), arguments, [], **span)
    body.statements.append(ast.Expr(tree, **span))


def subscript(name: str, place: int, span: Span) -> ast.expr:
    return ast.Subscript(load(name, span), ast.Constant(place, **span), ast.Load(), **span)


def constant(thing: Any, span: Span) -> ast.expr:
    """A literal: nested tuples of strings and numbers, None."""
    if isinstance(thing, tuple):
        return ast.Tuple([constant(t, span) for t in thing], ast.Load(), **span)
    return ast.Constant(thing, **span)


def layer_path(architecture: Architecture, section: Section) -> tuple[str, ...]:
    """Where a layer's module stands: under the number of the layer, or of what it shares."""
    stack = stack_of(architecture, section)
    number = stack.share[section.number - 1] if stack.share is not None else section.number
    return (*((stack.name,) if stack.name else ()), "layers", str(number))


def policy_path(stack: Stack) -> tuple[str, ...]:
    """Where the policy stands that a stack's layers run under, if the model asks for one."""
    return (*((stack.name,) if stack.name else ()), "policy")


def under_policy(
    policy: Callable[..., Mapping[str, Any]],
    function: Callable[..., Any],
    layer: int,
    stepping: bool,
    names: tuple[str, ...],
    left: tuple[str, ...],
    *given: Any,
) -> Any:
    """What a layer leaves, run by a policy.

    function  of the layer: `function(*given)` gives the values of the names `left`, alone or as a tuple
    names     for each argument the name whose value on entering it is; "" for what the policy does not see
    """

    def run(values: Mapping[str, Any]) -> dict[str, Any]:
        made = function(*[values[name] if name else one for name, one in zip(names, given, strict=True)])
        return dict(zip(left, made if len(left) > 1 else (made,), strict=True))

    found = policy(run, {name: one for name, one in zip(names, given, strict=True) if name}, layer, stepping)
    return found[left[0]] if len(left) == 1 else tuple(found[name] for name in left)


def row_span(rows: Sequence[str], index: int) -> Span:
    return {"lineno": index + 1, "col_offset": 0, "end_lineno": index + 1, "end_col_offset": len(rows[index])}


def leaving(section: Section) -> list[str]:
    """The names that a section's function returns, in order."""
    return [name for name, value in {**section.leaves, **section.asked}.items() if value.op != "number"]


def check_ids(given: Any, name: str) -> None:
    """Raise InputError unless `given` is a tensor of ids, (batch, length)."""
    if not isinstance(given, Tensor):
        raise InputError(f"{name} must be a tensor of whole numbers, (batch, length); this is a {type(given).__name__}")
    if given.dim() != 2:
        raise InputError(
            f"{name} must be (batch, length); this has the shape {tuple(given.shape)}"
            + (f": write {name}[None] for a batch of one" if given.dim() == 1 else "")
        )
    if given.dtype not in (torch.int64, torch.int32):
        raise InputError(f"{name} must be whole numbers (torch.int64 or int32); these are {given.dtype}")
