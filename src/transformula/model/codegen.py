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
Every node of the tree has the place of its value in the formula. Names are v0, v1, ..., f0, f1, ...; a user's names are
string constants only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import torch

from ..language.graph import Call, Section, Value
from ..language.source import Place
from ..words.word import word_class
from .files import PseudoFile, SourceSpan
from .sequences import Key, sequence_read, stepped

MOST_NESTED = 20
"""Expressions inside one another before a register is taken: Python's compiler is recursive."""

OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "div": ast.Div,
    "pow": ast.Pow,
}


@dataclass
class Piece:
    """An expression that is not yet in any statement: its tree, the registers it reads, how deep it is."""

    tree: ast.expr
    reads: list[str] = field(default_factory=list)
    depth: int = 1


class FunctionBody:
    """The statements of one function, with its registers and the objects that it uses by name; the last `defaults`
    parameters are None unless given."""

    def __init__(self, parameters: Sequence[str] = ()) -> None:
        self.statements: list[ast.stmt] = []
        self.objects: dict[str, Any] = {}
        self.parameters = list(parameters)
        self.defaults = 0
        self.free = 0
        self.left: dict[str, int] = {}

    def parameter(self, uses: int, name: str = "") -> str:
        """One more parameter of the function; its register."""
        register = name or self.fresh()
        self.parameters.append(register)
        self.left[register] = uses
        return register

    def fresh(self) -> str:
        self.free += 1
        return f"v{self.free - 1}"

    def object(self, thing: Any) -> str:
        """The name under which the function finds a thing: f0, f1, ..."""
        for name, known in self.objects.items():
            if known is thing:
                return name
        name = f"f{len(self.objects)}"
        self.objects[name] = thing
        return name

    def assign(self, piece: Piece, uses: Sequence[int], span: SourceSpan) -> list[str]:
        """Store a result, or with several uses a tuple of results; the registers.

        Registers that are read here for the last time are taken again, or deleted: what they hold is let go."""
        dead = self.read(piece.reads)
        targets = [dead.pop(0) if dead else self.fresh() for _ in uses]
        names: list[ast.expr] = [ast.Name(t, ast.Store(), **span) for t in targets]
        target = names[0] if len(names) == 1 else ast.Tuple(names, ast.Store(), **span)
        self.statements.append(ast.Assign([target], piece.tree, **span))
        for register, count in zip(targets, uses, strict=True):
            self.left[register] = count
            if not count:
                dead.append(register)
        if dead:
            self.statements.append(ast.Delete([ast.Name(d, ast.Del(), **span) for d in dead], **span))
        return targets

    def read(self, registers: Iterable[str]) -> list[str]:
        """Count readings; the registers that nothing reads any more."""
        dead: list[str] = []
        for register in registers:
            self.left[register] -= 1
            if self.left[register] == 0:
                dead.append(register)
        return dead

    def function(self, name: str, file: str) -> FunctionType:
        """Compile."""
        span: SourceSpan = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(p, **span) for p in self.parameters],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[ast.Constant(None, **span)] * self.defaults,
        )
        body = self.statements or [ast.Pass(**span)]
        definition = ast.FunctionDef(name, arguments, body, [], **span)
        if hasattr(definition, "type_params"):
            definition.type_params = []
        key = (file, ast.dump(definition, include_attributes=True), tuple(map(id, self.objects.values())))
        known = _functions.get(key)
        if known is not None:
            return known
        # without __name__: what traces the code then takes these globals as they are, not those of a module
        space: dict[str, Any] = dict(self.objects)
        exec(compile(ast.Module([definition], []), file, "exec"), space)
        made: FunctionType = space.pop(name)
        _functions[key] = made
        return made


_functions: WeakValueDictionary[Any, FunctionType] = WeakValueDictionary()
"""Functions by what they say: equal layers share one."""


def attribute(of: ast.expr, name: str, span: SourceSpan) -> ast.expr:
    return ast.Attribute(of, name, ast.Load(), **span)


def load(name: str, span: SourceSpan) -> ast.expr:
    return ast.Name(name, ast.Load(), **span)


def module_at(path: Sequence[str | int], span: SourceSpan) -> ast.expr:
    """`self._modules['a']._modules['b']`: PyTorch's own attribute look-up would be slower, and names could collide. A
    number first: what holds a module of another layer, `self.borrowed[n]._modules['c']`."""
    tree = load("self", span)
    for part in path:
        if isinstance(part, int):
            tree = ast.Subscript(attribute(tree, "borrowed", span), ast.Constant(part, **span), ast.Load(), **span)
            continue
        tree = ast.Subscript(attribute(tree, "_modules", span), ast.Constant(part, **span), ast.Load(), **span)
    return tree


@dataclass
class Ways:
    """How the code of a section finds modules and what it is given.

    path      for a call the way to its module from `self`: names, the first perhaps a number (see `module_at`)
    class_of  the class of the module that stands there
    face      which of the module's faces the call is: 0 the module itself, n its nth further set of options
    given     what the section's function is given: the values that each argument is, or none and ("real", sequence)
    growing   the sequences that decoding writes; causal: whether the section's stack sees the past only
    """

    path: Callable[[Call], tuple[str | int, ...]]
    class_of: Callable[[Call], type]
    face: Callable[[Call], int]
    given: list[tuple[Key, list[Value]]]
    growing: set[str]
    causal: bool = True


class SectionCode:
    """Generates one function from a section, or from a template's values.

    step    the variant for decoding: `function(self, ..., states, at)`
    """

    def __init__(self, section: Section, file: PseudoFile, ways: Ways, step: bool = False) -> None:
        self.section, self.file, self.ways, self.step = section, file, ways, step
        self.body = FunctionBody(["self"])
        self.registers: dict[int, str] = {}
        self.pieces: dict[int, Piece] = {}
        self.pending: list[Value] = []
        self.sites: list[Call] = []
        self.results = [through(v) for v in {**section.leaves, **section.asked}.values() if v.op != "number"]

    def generate(self, name: str) -> FunctionType:
        values = self.section.values
        self.uses: dict[int, int] = {}
        for value in values:
            for argument in map(through, value.args if through(value) is value else ()):
                self.uses[id(argument)] = self.uses.get(id(argument), 0) + 1
        for result in self.results:
            self.uses[id(result)] = self.uses.get(id(result), 0) + 1
        self.taps: dict[int, list[Value]] = {}
        for value in values:
            if value.op == "tap":
                self.taps.setdefault(id(value.args[0]), []).append(value)
        self.reals: dict[str, str] = {}
        for key, entered in self.ways.given:
            register = self.body.parameter(sum(self.uses.get(id(v), 0) for v in entered))
            self.registers.update((id(v), register) for v in entered)
            if key[0] == "real":
                self.reals[key[1]] = register
        if self.step:
            self.body.parameters += ["states", "at"]
        for value in values:
            if (value.op in OPERATORS or value.op in ("neg", "call")) and through(value) is value:
                self.emit(value)
        self.leave()
        return self.body.function(name, self.file.name)

    def emit(self, value: Value) -> None:
        span = self.file.span(value.place)
        taps = self.taps.get(id(value), [])
        operands = [self.take(a) for a in self.inlined([through(a) for a in value.args])]
        piece = self.call(value, operands, span, taps) if value.op == "call" else arithmetic(value.op, operands, span)
        used = self.uses.get(id(value), 0) - len(taps)
        if taps:
            self.flush()
            counts = [used, *(self.uses.get(id(t), 0) for t in taps)]
            for made, register in zip([value, *taps], self.body.assign(piece, counts, span), strict=True):
                self.registers[id(made)] = register
            return
        self.pieces[id(value)] = piece
        self.pending.append(value)
        if used != 1 or piece.depth >= MOST_NESTED:
            self.flush()

    def inlined(self, arguments: Sequence[Value]) -> Sequence[Value]:
        """Make sure that the arguments that wait are the last that wait, in order: else they get registers."""
        waiting = [a for a in arguments if id(a) in self.pieces]
        count = len(waiting)
        if count and [id(v) for v in self.pending[-count:]] == [id(v) for v in waiting]:
            del self.pending[-count:]
        else:
            self.flush()
        return arguments

    def take(self, value: Value) -> Piece:
        """The expression that reads a value."""
        span = self.file.span(value.place)
        if value.op == "number":
            return Piece(ast.Constant(value.number, **span))
        piece = self.pieces.pop(id(value), None)
        if piece is not None:
            return piece
        register = self.registers[id(value)]
        return Piece(load(register, span), [register])

    def flush(self) -> None:
        """Give a register to everything that waits."""
        for value in self.pending:
            piece = self.pieces.pop(id(value))
            self.registers[id(value)] = self.body.assign(
                piece, [self.uses.get(id(value), 0)], self.file.span(value.place)
            )[0]
        self.pending.clear()

    def call(self, value: Value, operands: list[Piece], span: SourceSpan, taps: list[Value]) -> Piece:
        call = value.call
        assert call is not None
        streams, ports = operands[: len(call.streams)], operands[len(call.streams) :]
        arguments = [self.tensor(o, span) for o in streams]
        keywords = [ast.keyword(name, o.tree, **span) for name, o in zip(call.ports, ports, strict=True)]
        made = word_class(call.word)
        function = getattr(made, "function", None)
        if function is not None:
            keywords += [ast.keyword(k, ast.Constant(v, **span), **span) for k, v in call.options.items()]
            if call.word.kind == "chance":
                keywords.append(ast.keyword("training", attribute(load("self", span), "training", span), **span))
            tree = load(self.body.object(function), span)
        else:
            module = module_at(self.ways.path(call), span)
            face = self.ways.face(call)
            if face:
                faces = attribute(module, "faces", span)
                module = ast.Subscript(faces, ast.Constant(face - 1, **span), ast.Load(), **span)
            step = self.step and stepped(value, self.ways.growing)
            if step and call.word.reach == "past":
                site = ast.Constant(len(self.sites), **span)
                self.sites.append(call)
                keywords.append(
                    ast.keyword("state", ast.Subscript(load("states", span), site, ast.Load(), **span), **span)
                )
            if step:
                keywords.append(ast.keyword("at", load("at", span), **span))
            real = self.reals.get(sequence_read(value, self.ways.causal))
            if real is not None:
                keywords.append(ast.keyword("real", load(real, span), **span))
            method = "step" if step else "forward"
            if self.ways.class_of(call) is not made:
                # another face of one module: two words of a family under one label
                tree = load(self.body.object(getattr(made, method)), span)
                arguments.insert(0, module)
            else:
                tree = attribute(module, "step", span) if step else module
        if taps:
            names: list[ast.expr] = [ast.Constant(t.name, **span) for t in taps]
            keywords.append(ast.keyword("taps", ast.Tuple(names, ast.Load(), **span), **span))
        return joined(ast.Call(tree, arguments, keywords, **span), operands)

    def tensor(self, piece: Piece, span: SourceSpan) -> ast.expr:
        """An argument; a number where a stream is expected becomes a tensor without dimensions."""
        if isinstance(piece.tree, ast.Constant) and isinstance(piece.tree.value, (int, float)):
            return load(self.body.object(_constant(piece.tree.value)), span)
        return piece.tree

    def leave(self) -> None:
        """Return the names on leaving: alone, or as a tuple."""
        operands = [self.take(r) for r in self.inlined(self.results)]
        span = self.file.span(self.results[-1].place if self.results else None)
        self.flush()
        if operands:
            tree = operands[0].tree if len(operands) == 1 else ast.Tuple([o.tree for o in operands], ast.Load(), **span)
            self.body.statements.append(ast.Return(tree, **span))


_constants: dict[float, torch.Tensor] = {}


def _constant(number: float) -> torch.Tensor:
    # float64 without dimensions: it takes no part in what type a result has
    return _constants.setdefault(number, torch.tensor(number, dtype=torch.float64, device="cpu"))


def through(value: Value) -> Value:
    """The value itself, or for a call of chance that never happens what it is given: such a call costs nothing."""
    while value.call is not None and value.call.word.kind == "chance" and value.call.options.get("p") == 0:
        value = value.args[0]
    return value


def arithmetic(op: str, operands: list[Piece], span: SourceSpan) -> Piece:
    if op == "neg":
        return joined(ast.UnaryOp(ast.USub(), operands[0].tree, **span), operands)
    return joined(ast.BinOp(operands[0].tree, OPERATORS[op](), operands[1].tree, **span), operands)


def joined(tree: ast.expr, operands: Sequence[Piece]) -> Piece:
    return Piece(tree, [r for o in operands for r in o.reads], 1 + max((o.depth for o in operands), default=0))


def sources_of(section: Section, place: Place | None = None) -> list[Any]:
    """The texts that a section's values stand in, its formula's first."""
    first = section.lines[0][0].source if section.lines else place.source if place else None
    found = dict.fromkeys([first] if first else [])
    for value in section.values:
        if value.place is not None:
            found.setdefault(value.place.source)
    return list(found)
