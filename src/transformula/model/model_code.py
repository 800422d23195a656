"""The whole model as straight-line functions: `before`, the layers in order, `after`, stack by stack, then `output`.

    forward(self, INPUTS, lengths)                the whole in one pass
    fixed(self, INPUTS, lengths)                  in decoding, once: what does not grow (an encoder's result)
    step(self, INPUTS, fixed, states, at)         in decoding, chunk by chunk: the rest
    entering(self, INPUTS, lengths)               what enters the output, as a list

Names and history are local registers between calls of the sections; a value is let go after its last reader.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from ..language.graph import Architecture, Section, Stack
from ..language.source import Place, Source
from ..language.word_calls import SEVERAL_IDS
from . import dataflow
from .codegen import FunctionCode, Piece, module_at
from .dataflow import Dataflow, SectionRun, leaving, stack_of
from .decoding import last_real
from .files import PseudoFile
from .trees import attribute, load, subscript

IDS = ("tokens", "source", "types", "targets", "characters", "document", "rank")  # inputs that are whole numbers
ALWAYS = 1_000_000  # readings of what is kept to the end


class ModelCode(FunctionCode):
    """Generates one of the functions above: its inputs and their checks, real positions, the sections, what it returns.

    functions  for each section its function, or the path of a layer and its method ("" for `forward`)
    """

    def __init__(
        self, architecture: Architecture, flow: Dataflow, functions: Sequence[FunctionType | tuple[Any, str]], mode: str
    ) -> None:
        self.rows = [section.title for section in architecture.sections()]
        self.source = Source("", "\n".join(self.rows))
        super().__init__(PseudoFile(architecture.name or "model", [self.source]), taken=flow.inputs)
        self.architecture, self.flow, self.functions, self.mode = architecture, flow, functions, mode
        self.runs = flow.chosen("forward" if mode == "entering" else mode)
        self.results = flow.fixed if mode == "fixed" else list(flow.outputs.values())
        if mode == "entering":
            self.results = self.runs.pop().reads
        self.uses.update([value for run in self.runs for value in run.reads] + self.results)

    def generate(self) -> FunctionType:
        self.take_inputs()
        for run in self.runs:
            self.run(run)
        trees = [load(self.registers[value]) for value in self.results]
        if self.mode in ("fixed", "entering"):
            tree: ast.expr = ast.List(trees, ast.Load())
        elif len(trees) > 1:
            tree = ast.Dict([ast.Constant(name) for name in self.flow.outputs], trees)
        else:
            tree = trees[0]
        self.add(ast.Return(tree), self.span(len(self.rows) - 1))
        return self.function(self.mode)

    def span(self, index: int) -> dict[str, int]:
        return self.file.span(Place(self.source, index + 1, 0, index + 1, len(self.rows[index])))

    def applied(self, function: Callable[..., Any], *arguments: Any) -> ast.expr:
        trees = [argument if isinstance(argument, ast.expr) else constant(argument) for argument in arguments]
        return ast.Call(self.object(function), trees, [])

    def take_inputs(self) -> None:
        """The parameters, and statements that refuse what is no ids and lengths that are none, and that tell which
        positions of each sequence are real."""
        start, architecture, flow = self.span(0), self.architecture, self.flow
        growing = {"forward": (True, False), "entering": (True, False), "fixed": (False,), "step": (True,)}[self.mode]
        inputs = [name for name in flow.inputs if (name in flow.growing) in growing]
        for name in inputs:
            self.uses[flow.inputs[name]] += ALWAYS  # its checks read it, too
            self.enter([flow.inputs[name]], name)

        def read(names: Iterable[str]) -> list[ast.expr]:
            return [load(self.registers[flow.inputs[name]]) for name in names]

        if self.mode == "step":
            self.parameters += ["fixed", "states", "at"]
            for place, value in enumerate(flow.fixed):
                self.assign([value], Piece(subscript(load("fixed"), place)), start)
        else:
            self.parameters.append("lengths")
            self.defaults = 1
        for name in inputs:
            if name in IDS:
                shape = "(batch, length, characters)" if name in SEVERAL_IDS else "(batch, length)"
                self.add(ast.Expr(self.applied(dataflow.check_ids, *read([name]), name, shape)), start)
        if self.mode == "step":
            return
        sequences = dataflow.input_sequences(architecture).values()
        measured = [tuple(name for name in names if name in inputs) for names in sequences]
        measured = [names for names in measured if names]
        if measured:
            given = read(name for names in measured for name in names)
            tree = self.applied(dataflow.check_lengths, load("lengths"), tuple(measured), *given)
            self.add(ast.Expr(tree), start)
        for sequence, value in flow.reals.items():
            described = dataflow.description(sequence, architecture)
            names = tuple(name for name in dict.fromkeys(dataflow.inputs_of(described)) if name in inputs)
            tree = self.applied(dataflow.real_positions, load("lengths"), described, names, *read(names))
            self.assign([value], Piece(tree), start)

    def run(self, run: SectionRun) -> None:
        section, stepping = self.architecture.sections()[run.section], self.mode == "step"
        registers = [self.registers[value] for value in run.reads]
        arguments = [load(register) for register in registers]
        names = [key[1] if key[0] == "now" else "" for key in run.keys]
        if stepping:
            if section.where == "output" and not dataflow.output_reads_more(self.architecture):
                arguments = [self.applied(last_real, each, load("at")) for each in arguments]
            arguments += [subscript(load("states"), run.section), load("at")]
            names += ["", ""]
        code = self.functions[run.section]
        if isinstance(code, tuple):
            path, method = code
            function = attribute(module_at(path), method) if method else module_at(path)
        else:
            function = self.object(code)
            arguments.insert(0, module_at(layer_path(self.architecture, section) if section.where == "layer" else ()))
            names.insert(0, "")
        tree: ast.expr = ast.Call(function, arguments, [])
        if section.where == "layer" and "policy" in self.architecture.hooks:
            policy = module_at(stack_path(stack_of(self.architecture, section), "policy"))
            stated = (section.number, stepping, tuple(names), tuple(leaving(section)))
            tree = self.applied(under_policy, policy, function, *stated, *arguments)
        self.assign(run.makes, Piece(tree, registers), self.span(run.section))


def constant(thing: Any) -> ast.expr:
    """A literal: nested tuples of strings and numbers, None."""
    return ast.Tuple([*map(constant, thing)], ast.Load()) if isinstance(thing, tuple) else ast.Constant(thing)


def stack_path(stack: Stack, *path: str) -> tuple[str, ...]:
    return (stack.name, *path) if stack.name else path


def layer_path(architecture: Architecture, section: Section) -> tuple[str, ...]:
    """Where a layer's module stands: under the number of the layer, or of what it shares."""
    stack = stack_of(architecture, section)
    number = stack.share[section.number - 1] if stack.share is not None else section.number
    return stack_path(stack, "layers", str(number))


def under_policy(
    policy: Callable[..., Mapping[str, Any]], function: Callable[..., Any], layer: int, stepping: bool,
    names: tuple[str, ...], left: tuple[str, ...], *given: Any,
) -> Any:  # fmt: skip
    """What a layer leaves, run by a policy.

    function  of the layer: `function(*given)` gives the values of the names `left`, alone or as a tuple
    names     for each argument the name whose value on entering it is; "" for what the policy does not see
    """

    def run(values: Mapping[str, Any]) -> dict[str, Any]:
        result = function(*[values[name] if name else one for name, one in zip(names, given, strict=True)])
        return dict(zip(left, result if len(left) > 1 else (result,), strict=True))

    values = policy(run, {name: one for name, one in zip(names, given, strict=True) if name}, layer, stepping)
    return values[left[0]] if len(left) == 1 else tuple(values[name] for name in left)
