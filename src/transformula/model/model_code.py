"""The whole model as straight-line functions: `before`, the layers in order, `after`, stack by stack, then `output`.

    forward(self, INPUTS, lengths)                the whole in one pass
    fixed(self, INPUTS, lengths)                  in decoding, once: what does not grow (an encoder's result)
    step(self, INPUTS, fixed, states, at)         in decoding, chunk by chunk: the rest

Names and history are local registers between calls of the sections; a value is let go after its last reader.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..language.graph import Architecture, Section, Stack
from ..language.model_file import INPUTS
from .codegen import FunctionBody, Piece, load, module_at
from .dataflow import SectionRun, dataflow_of, given_to, leaving
from .files import SourceSpan, register
from .sequences import check_lengths, description, input_sequences, inputs_of, real_positions, stack_of

IDS = ("tokens", "source", "types", "targets", "document", "rank")
"""Inputs that are whole numbers, one a position."""


def model_code(architecture: Architecture, functions: dict[int, Any], mode: str) -> FunctionType:
    """One of the functions above.

    functions  by the section's index: what its function is, or for a layer the name of its method ("" for `forward`)
    """
    return _ModelCode(architecture, functions, mode).generate()


class _ModelCode:
    """Writes one of the functions: its inputs and their checks, real positions, the sections, what it returns."""

    def __init__(self, architecture: Architecture, functions: dict[int, Any], mode: str) -> None:
        self.architecture, self.functions, self.mode = architecture, functions, mode
        self.sections = architecture.sections()
        self.rows = [section.title for section in self.sections]
        self.flow = dataflow_of(architecture, mode != "forward")
        self.results = self.flow.fixed if mode == "fixed" else list(self.flow.outputs.values())
        self.body = FunctionBody(["self"])
        self.registers: dict[int, str] = {}
        self.uses: dict[int, int] = {}
        for value in [read for run in self.flow.chosen(mode) for read in run.reads] + self.results:
            self.uses[value] = self.uses.get(value, 0) + 1

    def generate(self) -> FunctionType:
        """The function."""
        file = register(self.architecture.name or "model", "\n".join(self.rows) + "\n")
        growing = {"forward": (True, False), "fixed": (False,), "step": (True,)}[self.mode]
        inputs = {name: v for name, v in self.flow.inputs.items() if (name in self.flow.growing) in growing}
        self.take(inputs)
        self.check(inputs)
        if self.mode != "step":
            self.find_real(inputs)
        for run in self.flow.chosen(self.mode):
            self.run(run)
        self.leave()
        return self.body.function(self.mode, file)

    def span(self, index: int) -> SourceSpan:
        """Where a section's title stands."""
        end = len(self.rows[index])
        return {"lineno": index + 1, "col_offset": 0, "end_lineno": index + 1, "end_col_offset": end}

    def take(self, inputs: Mapping[str, int]) -> None:
        """The function's parameters, and registers for what it is given."""
        body, start = self.body, self.span(0)
        for name, value in inputs.items():
            # an input is read once more by its check, and by what tells its real positions
            self.uses[value] = self.uses.get(value, 0) + 1_000_000
            self.registers[value] = body.parameter(self.uses[value], name if name in INPUTS else "")
        if self.mode != "step":
            body.parameters.append("lengths")
            body.defaults = 1
            return
        body.parameters += ["fixed", "states", "at"]
        for place, value in enumerate(self.flow.fixed):
            piece = Piece(subscript("fixed", place, start))
            self.registers[value] = body.assign(piece, [self.uses.get(value, 0)], start)[0]

    def check(self, inputs: Mapping[str, int]) -> None:
        """Statements that refuse what is no ids, and lengths that are none."""
        start = self.span(0)
        for name, value in inputs.items():
            if name in IDS:
                call(self.body, check_ids, [load(self.registers[value], start), ast.Constant(name, **start)], start)
        measured = [n for n in inputs if n in input_sequences(self.architecture).values()]
        if self.mode != "step" and measured:
            names = constant(tuple(measured), start)
            tensors = [load(self.registers[inputs[name]], start) for name in measured]
            call(self.body, check_lengths, [load("lengths", start), names, *tensors], start)

    def find_real(self, inputs: Mapping[str, int]) -> None:
        """Statements that tell which positions of each sequence are real."""
        start = self.span(0)
        for sequence, value in self.flow.reals.items():
            described = description(sequence, self.architecture)
            read = [name for name in dict.fromkeys(inputs_of(described)) if name in inputs]
            arguments = [load("lengths", start), constant(described, start), constant(tuple(read), start)]
            arguments += [load(self.registers[inputs[name]], start) for name in read]
            tree = ast.Call(load(self.body.object(real_positions), start), arguments, [], **start)
            self.registers[value] = self.body.assign(Piece(tree), [self.uses.get(value, 0)], start)[0]

    def run(self, run: SectionRun) -> None:
        """The statement that runs a section."""
        section, span = self.sections[run.index], self.span(run.index)
        arguments: list[ast.expr] = [load(self.registers[value], span) for value in run.reads]
        if self.mode == "step":
            arguments += [subscript("states", run.index, span), load("at", span)]
        code = self.functions[run.index]
        if isinstance(code, tuple):
            path, method = code
            function = module_at(path, span)
            if method:
                function = ast.Attribute(function, method, ast.Load(), **span)
        else:
            function = load(self.body.object(code), span)
            owner = layer_path(self.architecture, section) if section.where == "layer" else ()
            arguments.insert(0, module_at(owner, span))
        if section.where == "layer" and "policy" in self.architecture.hooks:
            function, arguments = self.under_policy(section, function, arguments, span)
        piece = Piece(ast.Call(function, arguments, [], **span), [self.registers[value] for value in run.reads])
        names = self.body.assign(piece, [self.uses.get(value, 0) for value in run.makes], span)
        self.registers.update(zip(run.makes, names, strict=True))

    def under_policy(
        self, section: Section, function: ast.expr, arguments: list[ast.expr], span: SourceSpan
    ) -> tuple[ast.expr, list[ast.expr]]:
        """The call that hands a layer's function and arguments to the stack's policy."""
        stepping = self.mode == "step"
        given = given_to(self.architecture, section, self.mode != "forward")
        names = [key[1] if key[0] == "now" else "" for key, _ in given]
        after = 2 if stepping else 0
        names = [""] * (len(arguments) - len(names) - after) + names + [""] * after
        stated = (section.number, stepping, tuple(names), tuple(leaving(section)))
        policy = module_at(policy_path(stack_of(self.architecture, section)), span)
        told = [policy, function, *(constant(value, span) for value in stated), *arguments]
        return load(self.body.object(under_policy), span), told

    def leave(self) -> None:
        """The statement that returns the outputs: alone, or by name; or a list of what is fixed."""
        span = self.span(len(self.rows) - 1)
        trees: list[ast.expr] = [load(self.registers[value], span) for value in self.results]
        tree: ast.expr = trees[0] if trees else ast.List([], ast.Load(), **span)
        if self.mode == "fixed":
            tree = ast.List(trees, ast.Load(), **span)
        elif len(trees) > 1:
            tree = ast.Dict([ast.Constant(name, **span) for name in self.flow.outputs], trees, **span)
        self.body.statements.append(ast.Return(tree, **span))


def call(body: FunctionBody, function: Any, arguments: list[ast.expr], span: SourceSpan) -> None:
    """A statement that calls a function."""
    tree = ast.Call(load(body.object(function), span), arguments, [], **span)
    body.statements.append(ast.Expr(tree, **span))


def subscript(name: str, place: int, span: SourceSpan) -> ast.expr:
    return ast.Subscript(load(name, span), ast.Constant(place, **span), ast.Load(), **span)


def constant(thing: Any, span: SourceSpan) -> ast.expr:
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
