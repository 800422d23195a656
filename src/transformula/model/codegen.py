"""Sections become straight-line Python functions.

    x = x + dropout(attention(norm(x)), 0.1)
    x = x + mlp(norm(x))

becomes, as a syntax tree and never as text,

    def layer(self, v0):
        v0 = v0 + f0(
            self._modules['attention'](self._modules['attention_input_norm'](v0)), p=0.1, training=self.training)
        return v0 + self._modules['mlp'](self._modules['mlp_input_norm'](v0))

Values are computed in the order of the graph; one that is read once stands inside its reader's expression, the others
get a register, which is free again after the last reader, so that nothing is held longer than in code written by hand.
Every node of the tree has the place of its value in the formula. Names are v0, v1, ..., f0, f1, ..., and those of the
inputs; a user's other names are string constants only.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType, FunctionType, MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import torch

from ..analysis.kept import Latent
from ..analysis.places import through
from ..analysis.residual_path import line_of
from ..language.graph import Call, Section, Value
from ..words import latent
from ..words.latent import LatentLayout, LatentPart
from ..words.recompute import recomputed
from ..words.word import word_class
from .dataflow import Key, leaving, sequence_read
from .files import PseudoFile
from .pieces import in_pieces
from .trees import assignment, attribute, definition, deletion, load, located, result, subscript

Watched = Mapping[tuple[Value, int | None], Sequence[tuple[str, Callable[..., Any]]]]

MAX_NESTED_EXPRESSIONS = 20  # expressions inside one another before a register is taken: Python's compiler is recursive
OPERATORS = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "pow": ast.Pow}


@dataclass
class Piece:
    """An expression that is not yet in any statement: its tree, the registers it reads, how deep it is."""

    tree: ast.expr
    reads: list[str] = field(default_factory=list)
    depth: int = 1


class FunctionCode:
    """One function in the making: its statements, its registers, and the objects that it uses by name.

    uses       how often each value is read, by a key for the value
    registers  where each value is; left: how often each register is still read
    defaults   how many of the last parameters are None by default
    taken      names that the function's own are not
    """

    def __init__(self, file: PseudoFile, taken: Collection[str] = ()) -> None:
        self.file = file
        self.parameters, self.defaults = ["self"], 0
        self.statements: list[ast.stmt] = []
        self.objects: dict[str, Any] = {}
        self.uses: Counter[Hashable] = Counter()
        self.registers: dict[Hashable, str] = {}
        self.left: dict[str, int] = {}
        self.fresh, self.fresh_objects = (
            (name for name in map(pattern.format, itertools.count()) if name not in taken) for pattern in ("v{}", "f{}")
        )

    def enter(self, keys: Iterable[Hashable], name: str = "") -> None:
        register = name or next(self.fresh)
        self.parameters.append(register)
        self.registers.update(dict.fromkeys(keys, register))
        self.left[register] = sum(self.uses[key] for key in keys)

    def object(self, thing: Any) -> ast.expr:
        """What the function calls a thing: f0, f1, ..."""
        name = next((name for name, known in self.objects.items() if known is thing), None)
        name = name or next(self.fresh_objects)
        self.objects[name] = thing
        return load(name)

    def add(self, statement: ast.stmt, span: Mapping[str, int]) -> None:
        self.statements.append(located(statement, span))

    def assign(self, keys: Sequence[Hashable], piece: Piece, span: Mapping[str, int]) -> None:
        """Store a value, or several that come as a tuple.

        Registers that are read here for the last time are taken again, or deleted: what they hold is let go."""
        dead: list[str] = []
        for register in piece.reads:
            self.left[register] -= 1
            if self.left[register] == 0:
                dead.append(register)
        targets = [dead.pop(0) if dead else next(self.fresh) for _ in keys]
        self.add(assignment(targets, piece.tree), span)
        for key, register in zip(keys, targets, strict=True):
            self.registers[key] = register
            self.left[register] = self.uses[key]
            if not self.uses[key]:
                dead.append(register)
        if dead:
            self.add(deletion(dead), span)

    def function(self, name: str) -> FunctionType:
        file, body = self.file.name, self.statements or [ast.Pass()]
        tree = located(definition(name, self.parameters, body, self.defaults), self.file.span(None))
        code = compile(ast.Module([tree], []), file, "exec")
        (own,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
        # equal code may stand at other places of the text, which an error shows
        key = (file, own, own.co_linetable, tuple(map(id, self.objects.values())))
        if (function := _functions.get(key)) is None:
            # without __name__: what traces the code then takes these globals as they are, not those of a module
            space = dict(self.objects)
            exec(code, space)
            function = _functions[key] = space.pop(name)
        return function


_functions: WeakValueDictionary[Any, FunctionType] = WeakValueDictionary()  # by what they say: equal layers share one


def module_at(path: Iterable[str | int]) -> ast.expr:
    """`self._modules['a']._modules['b']`: PyTorch's own attribute look-up would be slower, and names could collide. A
    number first: what holds a module of another layer, `self.borrowed[n]._modules['c']`."""
    tree = load("self")
    for part in path:
        tree = subscript(attribute(tree, "borrowed" if isinstance(part, int) else "_modules"), part)
    return tree


class SectionCode(FunctionCode):
    """Generates one function from a section, or from a template's values.

    entering  what the function is given: the values that each argument is, or none and ("real", sequence)
    locate    for a call (the way to its module from `self`, see `module_at`; the class of what stands there; which of
              the module's faces the call is: 0 the module itself, n its nth further set of options)
    causal    whether the section's stack sees the past only
    growing   for decoding, `function(self, ..., states, at)`: the sequences that it writes
    latents   for decoding, calls of attention that keep what their keys and values are linear in
    sites     of decoding, the calls that keep a state
    watched   what is passed through functions (`watched.py`): (a value, None), or (a value, the place of one of its
              arguments), with each name and its function; `seen`: the names that the code does pass through theirs
    again     the lines, from 0, that are made again in the backward pass; None: all together
    """

    def __init__(
        self,
        section: Section,
        file: PseudoFile,
        entering: Mapping[Key, list[Value]],
        locate: Callable[[Call], tuple[Iterable[str | int], type, int]],
        causal: bool = True,
        growing: Collection[str] | None = None,
        latents: Mapping[Value, Latent] = MappingProxyType({}),
        watched: Watched = MappingProxyType({}),
        again: frozenset[int] | None = frozenset(),
    ) -> None:
        super().__init__(file)
        self.section, self.again = section, again
        self.watched, self.seen = watched, set[str]()
        self.begun = 0  # the first statement of the line that is being emitted
        self.latents = latents
        self.locate, self.causal, self.growing = locate, causal, growing
        self.pieces: dict[Value, Piece] = {}  # what waits to be read, in order
        self.sites: list[Call] = []
        self.taps: defaultdict[Value, list[Value]] = defaultdict(list)
        self.results = [through(value) for value in leaving(section).values()]
        self.uses.update(self.results)
        self.values = self.needed([value for value in section.values if through(value) is value])
        # a register is deleted where nothing reads it
        self.uses.update([v for v, argument in watched if argument is None and not self.uses[v]])
        for key, values in entering.items():
            self.enter([*values, key])
        self.watch_again([value for values in entering.values() for value in values])
        if growing is not None:
            self.parameters += ["states", "at"]

    def needed(self, values: Sequence[Value]) -> list[Value]:
        """The values that are computed, with who taps them and how often each is read: keys and values are not where
        what they are linear in is kept."""
        needed: list[Value] = []
        for value in reversed(values):
            if value.op == "tap":
                self.taps[value.args[0]].insert(0, value)
            elif self.latents and value.op == "call" and not self.uses[value] and value not in self.taps:
                continue
            else:
                self.uses.update(map(through, self.read_by(value)))
            needed.append(value)
        return needed[::-1]

    def read_by(self, value: Value) -> tuple[Value, ...]:
        """What a value is computed of."""
        if value not in self.latents:
            return value.args
        return (value.args[0], *self.latents[value].sources, *value.args[3:])

    def generate(self, name: str) -> FunctionType:
        runs = self.emit_all()
        operands = self.operands(self.results)
        self.flush()
        if operands:
            self.add(result([operand.tree for operand in operands]), self.file.span(self.results[-1].place))
        if runs:
            self.statements = in_pieces(self.statements, runs, self.parameters, self.object(recomputed))
        return self.function(name)

    def emit_all(self) -> list[tuple[int, int]]:
        """Emit all values; gives the runs of statements, (first, end), that are made again, each line by itself."""
        runs: list[tuple[int, int]] = []
        now: int | None = None if self.again is None else -1
        for value in self.values:
            if not (value.op in ("call", "neg") or value.op in OPERATORS):
                continue
            if self.again:
                line = line_of(self.section, value)
                if line is not None and line != now:
                    self.close(runs, now)
                    now = line
            self.emit(value)
        if self.again != frozenset():
            self.close(runs, now)
        return runs

    def close(self, runs: list[tuple[int, int]], line: int | None) -> None:
        """Let a line end here, and note its statements where it is made again; None: all so far are one."""
        self.flush()
        first, self.begun = self.begun, len(self.statements)
        if self.begun > first and (line is None or line in (self.again or ())):
            runs.append((first, self.begun))

    def emit(self, value: Value) -> None:
        span, taps = self.file.span(value.place), self.taps[value]
        operands = self.operands([through(argument) for argument in self.read_by(value)])
        if self.watched and value not in self.latents:
            operands = [replace(o, tree=self.watch(o.tree, (value, n))) for n, o in enumerate(operands)]
        match value.op:
            case "call":
                tree = self.call(value, operands, span)
            case "neg":
                tree = ast.UnaryOp(ast.USub(), operands[0].tree)
            case op:
                tree = ast.BinOp(operands[0].tree, OPERATORS[op](), operands[1].tree)
        depth = 1 + max((operand.depth for operand in operands), default=0)
        piece = Piece(located(tree, span), [register for operand in operands for register in operand.reads], depth)
        if taps:
            self.flush()
            self.assign([value, *taps], piece, span)
            self.watch_again([value, *taps])
            return
        piece.tree = located(self.watch(piece.tree, (value, None)), span)
        self.pieces[value] = piece
        if self.uses[value] != 1 or depth >= MAX_NESTED_EXPRESSIONS:
            self.flush()

    def watch(self, tree: ast.expr, place: tuple[Value, int | None]) -> ast.expr:
        """An expression, passed through the functions that watch it."""
        for name, function in self.watched.get(place, ()):
            self.seen.add(name)
            tree = ast.Call(self.object(function), [ast.Constant(name), tree], [])
        return tree

    def watch_again(self, values: Sequence[Value]) -> None:
        """Pass values that have registers through the functions that watch them."""
        for value in values:
            if (value, None) in self.watched and value in self.registers:
                name = self.registers[value]
                statement = assignment([name], self.watch(load(name), (value, None)))
                self.add(statement, self.file.span(value.place))

    def operands(self, values: Sequence[Value]) -> list[Piece]:
        """The expressions that read these values. Those that wait must be the last that wait, in order: else all that
        waits gets registers."""
        waiting = [value for value in values if value in self.pieces]
        if not waiting or waiting != [*self.pieces][-len(waiting) :]:
            self.flush()
        return [self.pieces.pop(value) if value in self.pieces else self.read(value) for value in values]

    def read(self, value: Value) -> Piece:
        span = self.file.span(value.place)
        if value.op == "number":
            return Piece(located(ast.Constant(value.number), span))
        return Piece(located(load(self.registers[value]), span), [self.registers[value]])

    def flush(self) -> None:
        for value, piece in self.pieces.items():
            self.assign([value], piece, self.file.span(value.place))
        self.pieces.clear()

    def call(self, value: Value, operands: Sequence[Piece], span: Mapping[str, int]) -> ast.expr:
        call, cls = value.called, word_class(value.called.word)
        count = len(call.streams) if value not in self.latents else 1 + len(self.latents[value].sources)
        trees = [operand.tree for operand in operands]
        # a number where a stream is expected becomes a tensor without dimensions
        arguments = [
            self.object(constant_tensor(tree.value)) if isinstance(tree, ast.Constant) else tree
            for tree in trees[:count]
        ]
        keywords = dict(zip(call.ports, trees[count:], strict=True))
        if hasattr(cls, "function"):
            keywords |= {name: ast.Constant(option) for name, option in call.options.items()}
            if call.word.kind == "chance":
                keywords["training"] = attribute(load("self"), "training")
            called = self.object(cls.function)
        else:
            path, class_there, face = self.locate(call)
            module = module_at(path)
            if face:
                module = subscript(attribute(module, "faces"), face - 1)
            # in decoding a call must be told where the chunk stands if it acts on what grows, and on its past
            acts = self.growing is not None and (call.word.positional or call.word.reach == "past")
            step = acts and not {one.sequence for one in (value, *value.args)}.isdisjoint(self.growing or ())
            if step:
                if call.word.reach == "past":
                    keywords["state"] = subscript(load("states"), len(self.sites))
                    self.sites.append(call)
                keywords["at"] = load("at")
            real = self.registers.get(("real", sequence_read(value, self.causal)))
            if real is not None:
                keywords["real"] = load(real)
            if value in self.latents:
                called = self.object(latent.step)
                arguments.insert(0, module)
                layout, matrices = latent_layout(self.latents[value])
                keywords["layout"] = self.object(layout)
                ways = [module_at(self.locate(matrix.called)[0]) for matrix in matrices]
                keywords["matrices"] = ast.Tuple(ways, ast.Load())
            elif class_there is not cls:
                # another face of one module: two words of a family under one label
                called = self.object(getattr(cls, "step" if step else "forward"))
                arguments.insert(0, module)
            else:
                called = attribute(module, "step") if step else module
        if self.taps[value]:
            keywords["taps"] = ast.Tuple([ast.Constant(tap.name) for tap in self.taps[value]], ast.Load())
        return ast.Call(called, arguments, [ast.keyword(name, tree) for name, tree in keywords.items()])


@cache
def latent_layout(made_of: Latent) -> tuple[LatentLayout, list[Value]]:
    """Where the parts of keys and values stand among the channels that are kept, and the calls of their matrices."""
    widths = [source.width for source in made_of.sources]
    known = (*made_of.keys, made_of.value)
    matrices = [part.matrix for part in known if part.matrix is not None]
    numbers: dict[Value | None, int] = {matrix: matrices.index(matrix) for matrix in matrices}
    *keys, value = (
        LatentPart(sum(widths[: part.source]), widths[part.source], part.size, numbers.get(part.matrix))
        for part in known
    )
    key_width = max(part.first + part.width for part in keys)
    return LatentLayout(tuple(keys), value, made_of.heads, key_width), matrices


@cache
def constant_tensor(number: float) -> torch.Tensor:
    # float64 without dimensions: it takes no part in what type a result has
    return torch.tensor(number, dtype=torch.float64, device="cpu")
