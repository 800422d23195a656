"""The whole model as one straight-line function: `before`, the layers in order, `after`, `output`.

Names and history are local registers between calls of the sections; a value is let go after its last reader.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..language.graph import Architecture, Section
from ..language.model_file import INPUTS
from .codegen import Body, Piece, load, module_at
from .files import Span, register

IDS = ("tokens", "source", "types", "targets", "document", "rank")
"""Inputs that are whole numbers, one a position."""


def model_code(architecture: Architecture, functions: dict[int, FunctionType], step: bool) -> FunctionType:
    """`forward(self, tokens)`, or for decoding `step(self, tokens, states, at)`.

    functions  those of `before`, `after` and `output`, by the section's index
    """
    sections = architecture.sections()
    rows = [s.title for s in sections]
    file = register(architecture.name or "model", "\n".join(rows) + "\n")
    plan, inputs, uses, outputs = flow(architecture)
    body = Body(["self"])
    registers: dict[int, str] = {}
    for name, value in inputs.items():
        registers[value] = body.parameter(uses.get(value, 0), name if name in INPUTS else "")
    if step:
        body.parameters += ["states", "at"]
    for name, value in inputs.items():
        if name in IDS:
            span = row_span(rows, 0)
            check = ast.Call(
                load(body.object(check_ids), span),
                [load(registers[value], span), ast.Constant(name, **span)],
                [],
                **span,
            )
            body.statements.append(ast.Expr(check, **span))
    for index, given, made in plan:
        section, span = sections[index], row_span(rows, index)
        arguments: list[ast.expr] = [load(registers[g], span) for g in given]
        if step:
            states = ast.Subscript(load("states", span), ast.Constant(index, **span), ast.Load(), **span)
            arguments += [states, load("at", span)]
        if section.where == "layer":
            function: ast.expr = module_at(("layers", str(section.number)), span)
            if step:
                function = ast.Attribute(function, "_step", ast.Load(), **span)
        else:
            function = load(body.object(functions[index]), span)
            arguments.insert(0, load("self", span))
        piece = Piece(ast.Call(function, arguments, [], **span), [registers[g] for g in given])
        names = body.assign(piece, [uses.get(m, 0) for m in made], span)
        registers.update(zip(made, names, strict=True))
    span = row_span(rows, len(rows) - 1)
    results: list[ast.expr] = [load(registers[v], span) for v in outputs.values()]
    tree = results[0]
    if len(results) > 1:
        tree = ast.Dict([ast.Constant(name, **span) for name in outputs], results, **span)
    body.statements.append(ast.Return(tree, **span))
    return body.function("step" if step else "forward", file)


def row_span(rows: Sequence[str], index: int) -> Span:
    return {"lineno": index + 1, "col_offset": 0, "end_lineno": index + 1, "end_col_offset": len(rows[index])}


def flow(
    architecture: Architecture,
) -> tuple[list[tuple[int, list[int], list[int]]], dict[str, int], dict[int, int], dict[str, int]]:
    """Who reads what: (index of a section, values given, values made) in order; inputs; readers of each; outputs.

    Values between sections are numbers here.
    """
    sections = architecture.sections()
    wanted = {pair for s in sections for pair in s.history}
    now: dict[str, int] = {}
    past: dict[tuple[str, int], int] = {}
    inputs: dict[str, int] = {}
    uses: dict[int, int] = {}
    plan: list[tuple[int, list[int], list[int]]] = []
    count = 0
    for index, section in enumerate(sections):
        given: list[int] = []
        for key, value in section.reads.items():
            if value.op == "input":
                if value.name not in inputs:
                    inputs[value.name] = count
                    count += 1
                given.append(inputs[value.name])
            else:
                given.append(now[key])
        given += [past[pair] for pair in section.history]
        names = leaving(section)
        made = list(range(count, count + len(names)))
        count += len(names)
        if names:
            plan.append((index, given, made))
            for number in given:
                uses[number] = uses.get(number, 0) + 1
        now.update(zip(names, made, strict=True))
        if section.where in ("before", "layer"):
            for pair in wanted:
                if pair[1] == section.number and pair[0] in now:
                    past[pair] = now[pair[0]]
    outputs = {name: now[name] for name in leaving(sections[-1])}
    if not outputs or len(outputs) < len(sections[-1].leaves):
        raise InputError("the output is a number: it must be made of what the layers leave")
    for number in outputs.values():
        uses[number] = uses.get(number, 0) + 1
    return plan, inputs, uses, outputs


def leaving(section: Section) -> list[str]:
    """The names that a section's function returns, in order."""
    return [name for name, value in section.leaves.items() if value.op != "number"]


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
