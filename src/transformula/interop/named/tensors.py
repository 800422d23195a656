"""The tensors of a folder as expressions of ours, `theirs = f(ours)`, which are read both ways.

    query | key | value          rows one after the other
    outputs(query | key)         the same of convolutions, whose outputs are counted along the first axis
    groups(heads, q | k | v)     rows in groups: the first head's of each, the second head's of each, ...
    pairs(heads, query)          of each group of rows those of its two halves in turn
    pairs(1, query, n)           the same of n parts in the place of halves
    T(up)                        transposed
    norm - 1, norm + 1           less a number, or with one more
    shape(vector, 1, vocab)      in another shape
    gate[E]                      the matrix of expert E
    a if tied else b             by constants; `none`: there is no such tensor
    length(conv.weight, 2)       weight norm: the lengths g of the slices along axis 2, one number each, ...
    direction(conv.weight, 2)    ... and v, read as v / |v|, so that the product of both is g v / |v|; written as it is
    again(words)                 a tied tensor, which is not stored again
    vector.weight or 0           zeros where it is missing
    zeros(1, width)              none of ours: all 0; `zeros()`, a count, which is a whole number
    waves(context, width, 10000) none of ours: sines and cosines, all sines of a row first
    rates(size, theta)           none of ours: the rates of rotary positions, one of each pair of channels

A mapping nests names: `h.N = layers.N+1: {ln_1: attention_input_norm}` says that `h.0.ln_1` is our
`layers.1.attention_input_norm`, for each of our layers. `stages.S = near | far: {...}` stands for a mapping of each of
our stacks, in which S is 0, then 1, in keys and in numbers such as `sizes[S+1]`. A name of a module stands for all its
tensors. `PREFIX: {...}` stands for the prefix of the data file, in which families of one kind differ, and a first
name for what `places` says.

Rows and matrices are counted from the end of a shape, so that the tables of experts are read alike. Nothing is copied
where a view will do.
"""

from __future__ import annotations

import ast
import fnmatch
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from ...errors import CheckpointError
from ...language.parser import parse_python
from ...language.source import Source
from ...words.waves import waves
from .entries import NamedModel
from .expressions import NOTHING, STACK, compute

Shapes = Mapping[str, torch.Size]
PREFIX = "PREFIX"  # a key of `weights`, in the place of the data file's prefix


@dataclass(frozen=True)
class OurTensor:
    """A tensor of ours, or of a table of matrices the one of a number."""

    name: str
    variable: str = ""
    number: int | None = None


@dataclass(frozen=True)
class Concatenated:
    """Rows of several one after the other; in `groups`, those of the first group of each, then of the second, ..."""

    parts: tuple[Expression, ...]
    groups: str = "1"


@dataclass(frozen=True)
class Outputs:
    """The outputs of several convolutions one after the other, along the first axis."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Paired:
    """In each group the first row, the first of its second half, the second, ...: channels that turn together. There
    may be other `parts` than halves."""

    inner: Expression
    groups: str
    parts: str = "2"


@dataclass(frozen=True)
class Transposed:
    inner: Expression


@dataclass(frozen=True)
class Less:
    inner: Expression
    number: str


@dataclass(frozen=True)
class Shaped:
    inner: Expression
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class Factor:
    """What weight norm (Salimans and Kingma, 1602.07868) makes a tensor of: the length of each slice along an axis, or
    its direction. Ours is the product of both. A direction is written with the length that it has, as PyTorch does."""

    inner: Expression
    axis: str
    kind: str


@dataclass(frozen=True)
class Computed:
    """A tensor that sizes alone give, zeros, waves or rates: it is written; one that is read must be equal."""

    kind: str
    sizes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(self.sizes)})"


Expression = Computed | OurTensor | Concatenated | Outputs | Paired | Transposed | Less | Shaped | Factor


@dataclass(frozen=True)
class Equation:
    """A tensor of theirs, of ours. `again`: it is another's, tied; `optional`: zeros where it is missing; `chosen`: its
    text depends on whether the output is tied."""

    theirs: str
    expression: Expression
    again: bool = False
    optional: bool = False
    chosen: bool = False

    @property
    def factor(self) -> bool:
        """Whether it is one of several that ours is the product of."""
        return isinstance(self.expression, Factor)


def row_axis(tensor: Tensor) -> int:
    return -2 if tensor.dim() > 1 else -1


class Solver:
    """Both directions of expressions over tensors of ours, with the model's constants."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self.constants = constants

    def number(self, text: str) -> int:
        return int(compute(text, self.constants))

    def theirs(self, expression: Expression, ours: Callable[[OurTensor], Tensor]) -> Tensor:
        """Their tensor; `ours` looks one up."""
        match expression:
            case OurTensor():
                return ours(expression)
            case Concatenated(parts=parts, groups=groups):
                n, tensors = self.number(groups), [self.theirs(part, ours) for part in parts]
                axis = row_axis(tensors[0])
                if n == 1:
                    return torch.cat(tensors, axis)
                by_group = torch.cat([split_rows(t, axis, n) for t in tensors], axis)
                return by_group.flatten(axis - 1, axis)
            case Outputs(parts=parts):
                return torch.cat([self.theirs(part, ours) for part in parts])
            case Paired(inner=inner, groups=groups, parts=count):
                tensor = self.theirs(inner, ours)
                return swapped_parts(tensor, row_axis(tensor), (self.number(groups), self.number(count), -1))
            case Transposed(inner=inner):
                return transpose(self.theirs(inner, ours))
            case Less(inner=inner, number=number):
                return self.theirs(inner, ours) - self.number(number)
            case Shaped(inner=inner, sizes=sizes):
                return self.theirs(inner, ours).reshape([self.number(size) for size in sizes])
            case Factor(inner=inner, axis=axis, kind=kind):
                tensor = self.theirs(inner, ours)
                return tensor if kind == "direction" else slice_lengths(tensor, self.number(axis))
            case Computed(kind=kind, sizes=sizes):
                return self.computed(kind, [compute(size, self.constants) for size in sizes])

    def computed(self, kind: str, sizes: list[Any]) -> Tensor:
        """A tensor that sizes alone give."""
        if kind == "zeros":
            return torch.zeros([int(size) for size in sizes], dtype=None if sizes else torch.int64)
        if kind == "rates":
            size, base = sizes
            return torch.pow(base, -torch.arange(0, size, 2) / size)
        rows, size, base = sizes
        return waves(torch.arange(rows), 0, size, base, True)[0]

    def shape(self, expression: Expression, shapes: Shapes) -> torch.Size:
        """The shape of their tensor."""
        return self.theirs(expression, lambda one: on_meta(one, shapes)).shape

    def to_ours(self, expression: Expression, theirs: Tensor, shapes: Shapes) -> Iterator[tuple[OurTensor, Tensor]]:
        """The tensors of ours that theirs is made of; its shape is that of `shape`."""
        match expression:
            case OurTensor():
                yield expression, theirs
            case Concatenated(parts=parts, groups=groups):
                n, axis = self.number(groups), row_axis(theirs)
                sizes = [self.shape(part, shapes)[-2:][0] // n for part in parts]  # rows, of matrices in a table too
                pieces = (theirs if n == 1 else split_rows(theirs, axis, n)).split(sizes, axis)  # type: ignore[no-untyped-call]
                for part, piece in zip(parts, pieces, strict=True):
                    yield from self.to_ours(part, piece if n == 1 else piece.flatten(axis - 1, axis), shapes)
            case Outputs(parts=parts):
                pieces = theirs.split([self.shape(part, shapes)[0] for part in parts])  # type: ignore[no-untyped-call]
                for part, piece in zip(parts, pieces, strict=True):
                    yield from self.to_ours(part, piece, shapes)
            case Paired(inner=inner, groups=groups, parts=count):
                rows = swapped_parts(theirs, row_axis(theirs), (self.number(groups), -1, self.number(count)))
                yield from self.to_ours(inner, rows, shapes)
            case Transposed(inner=inner):
                yield from self.to_ours(inner, transpose(theirs), shapes)
            case Less(inner=inner, number=number):
                yield from self.to_ours(inner, theirs + self.number(number), shapes)
            case Shaped(inner=inner):
                yield from self.to_ours(inner, theirs.reshape(self.shape(inner, shapes)), shapes)
            case Factor(inner=inner, axis=axis, kind="direction"):
                yield from self.to_ours(inner, theirs / slice_lengths(theirs, self.number(axis)), shapes)
            case Factor(inner=inner):
                yield from self.to_ours(inner, theirs, shapes)


def split_rows(tensor: Tensor, axis: int, groups: int) -> Tensor:
    """(..., groups, rows of each[, columns])"""
    return tensor.unflatten(axis, (groups, -1))  # type: ignore[no-untyped-call, no-any-return]


def swapped_parts(tensor: Tensor, axis: int, sizes: tuple[int, int, int]) -> Tensor:
    """Rows as (groups, m, n), in the order (groups, n, m)."""
    apart = tensor.unflatten(axis, sizes)  # type: ignore[no-untyped-call]
    return apart.transpose(axis - 1, axis).flatten(axis - 2, axis)  # type: ignore[no-any-return]


def slice_lengths(tensor: Tensor, axis: int) -> Tensor:
    """The length of each slice along an axis; the other axes have the size 1."""
    others = [n for n in range(tensor.dim()) if n != axis]
    lengths: Tensor = torch.linalg.vector_norm(tensor, dim=others, keepdim=True)
    return lengths


def transpose(tensor: Tensor) -> Tensor:
    return tensor.transpose(-1, -2) if tensor.dim() > 1 else tensor


def on_meta(one: OurTensor, shapes: Shapes) -> Tensor:
    shape = shapes[one.name]
    return torch.empty(shape if one.number is None else shape[1:], device="meta")


def refs(expression: Expression) -> list[OurTensor]:
    """The tensors of ours that an expression is made of."""
    match expression:
        case OurTensor():
            return [expression]
        case Concatenated(parts=parts) | Outputs(parts=parts):
            return [one for part in parts for one in refs(part)]
        case Computed():
            return []
        case _:
            return refs(expression.inner)


def replace_tensors(expression: Expression, change: Callable[[OurTensor], OurTensor]) -> Expression:
    """The expression with its tensors replaced."""
    match expression:
        case OurTensor():
            return change(expression)
        case Computed():
            return expression
        case Concatenated(parts=parts) | Outputs(parts=parts):
            return replace(expression, parts=tuple(replace_tensors(part, change) for part in parts))
        case _:
            return replace(expression, inner=replace_tensors(expression.inner, change))


@lru_cache(maxsize=4096)
def parse_tensor(text: str) -> ast.expr:
    tree = parse_python(Source("tensor of a named model", text.strip()), "eval")
    assert isinstance(tree, ast.Expression)
    return tree.body


def read_expression(node: ast.expr) -> Expression:
    """An expression of tensors; names are not looked up. Raises CheckpointError for what is none."""
    match node:
        case ast.Name() | ast.Attribute():
            return OurTensor(ast.unparse(node))
        case ast.Subscript(value=table, slice=ast.Name(id=variable)):
            return OurTensor(ast.unparse(table), variable)
        case ast.BinOp(op=ast.BitOr()):
            return Concatenated(tuple(map(read_expression, parts_of(node))))
        case ast.BinOp(left=left, op=ast.Sub(), right=ast.Constant() as number):
            return Less(read_expression(left), ast.unparse(number))
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant() as number):
            return Less(read_expression(left), f"-{ast.unparse(number)}")
        case ast.Call(func=ast.Name(id=name), args=args):
            return read_call(node, name, args)
    raise no_expression(node)


def read_call(node: ast.expr, name: str, args: list[ast.expr]) -> Expression:
    """What a call makes of tensors. Raises CheckpointError for one that is none."""
    match name, args:
        case "T", [inner]:
            return Transposed(read_expression(inner))
        case "groups", [count, inner]:
            return Concatenated(tuple(map(read_expression, parts_of(inner))), ast.unparse(count))
        case "outputs", [inner]:
            return Outputs(tuple(map(read_expression, parts_of(inner))))
        case "pairs", [count, inner, *parts] if len(parts) < 2:
            return Paired(read_expression(inner), ast.unparse(count), *map(ast.unparse, parts))
        case "shape", [inner, *sizes]:
            return Shaped(read_expression(inner), tuple(map(ast.unparse, sizes)))
        case "length" | "direction", [inner, axis]:
            return Factor(read_expression(inner), ast.unparse(axis), name)
        case "zeros" | "waves" | "rates", sizes:
            return Computed(name, tuple(map(ast.unparse, sizes)))
    raise no_expression(node)


def no_expression(node: ast.expr) -> CheckpointError:
    return CheckpointError(f"{ast.unparse(node)}: is no expression of tensors; see interop/named/tensors.py")


def parts_of(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*parts_of(node.left), node.right]
    return [node]


class Equations:
    """The equations of a named model for the tensors that a model of ours has.

    rows   in the order of the file
    zeros  tensors of ours that their folder lacks, all zero
    """

    def __init__(self, model: NamedModel, constants: Mapping[str, Any], ours: Mapping[str, Tensor]) -> None:
        shapes = {name: tensor.shape for name, tensor in ours.items()}
        self.model, self.constants, self.shapes = model, constants, shapes
        self.zeros = [name for pattern in model.zeros for name in fnmatch.filter(shapes, pattern)]
        self.rows: list[Equation] = []
        self.suffixes: dict[str, list[str]] = defaultdict(list)
        for name in shapes:
            module, _, last = name.rpartition(".")
            self.suffixes[module].append(f".{last}")
            self.suffixes[name].append("")
        self.read_rows(model.weights, "", "", {})

    def unplaced(self) -> str:
        """The first tensor of ours that no row has, and whose numbers would be lost; "" for none."""
        written = {one.name for row in self.rows for one in refs(row.expression)}
        return min(self.shapes.keys() - written - {*self.zeros}, default="")

    def read_rows(self, rows: Mapping[str, Any], theirs: str, ours: str, at: Mapping[str, int]) -> None:
        for written, value in rows.items():
            first = re.match(r"\w+", written)
            key = written if first is None else self.model.places.get(first[0], first[0]) + written[first.end() :]
            if not isinstance(value, dict):
                self.read_row(theirs + key, str(value), ours, at)
                continue
            if key == PREFIX:
                self.read_rows(value, theirs + self.model.prefix, ours, at)
                continue
            left, _, right = (part.strip() for part in key.partition("="))
            if "|" in right:
                self.read_rows(each_stack(left, right, value), theirs, ours, at)
                continue
            start = ours + right
            variable = re.search(r"(?<![\w])([A-Z])(\+1)?(?![\w])", right)
            if variable is None:
                self.read_rows(value, f"{theirs}{left}.", f"{start}." if right else start, at)
                continue
            before, after = ours + right[: variable.start()], right[variable.end() :]
            pattern = re.compile(re.escape(before) + r"(\d+)" + re.escape(after) + r"\.")
            numbers = {int(match[1]) for name in self.shapes if (match := pattern.match(name))}
            for number in sorted(numbers):
                n = number - (1 if variable[2] else 0)
                inside = put_number(theirs + left, variable[1], n)
                self.read_rows(value, f"{inside}.", f"{before}{number}{after}.", {**at, variable[1]: n})

    def read_row(self, theirs: str, text: str, place: str, at: Mapping[str, int]) -> None:
        node, chosen = parse_tensor(text), False
        while isinstance(node, ast.IfExp):
            test = ast.unparse(node.test)
            chosen = chosen or "tied" in test
            node = node.body if compute(test, self.constants) else node.orelse
        if isinstance(node, ast.Name) and node.id == NOTHING:
            return
        optional, again = isinstance(node, ast.BoolOp), False
        if isinstance(node, ast.BoolOp):
            node = node.values[0]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "again":
            node, again = node.args[0], True
        expression = read_expression(node)
        tensors = refs(expression)
        if not tensors:
            self.rows.append(Equation(theirs, expression, again, True, chosen))
            return
        for suffix in self.suffixes.get(place + tensors[0].name, ()):
            free = sorted({one.variable for one in tensors if one.variable and one.variable not in at})
            tables = {one.variable: self.shapes.get(place + one.name + suffix, (0,)) for one in tensors}
            for numbers in itertools.product(*(range(tables[variable][0]) for variable in free)):
                here = {**at, **dict(zip(free, numbers, strict=True))}
                name = theirs
                for variable, number in here.items():
                    name = put_number(name, variable, number)
                whole = replace_tensors(expression, partial(self.whole_tensor, place, suffix, here))
                if all(one.name in self.shapes for one in refs(whole)):
                    self.rows.append(Equation(name + suffix, whole, again, optional, chosen))

    def whole_tensor(self, place: str, suffix: str, at: Mapping[str, int], one: OurTensor) -> OurTensor:
        """A tensor under its whole name, with the number of its matrix."""
        return OurTensor(place + one.name + suffix, "", at.get(one.variable))


def each_stack(left: str, stacks: str, rows: Mapping[str, Any]) -> dict[str, Any]:
    """`stages.S = near | far: rows` as a row for each stack, with its number in the place of S."""

    def numbered(value: Any, number: int) -> Any:
        if isinstance(value, Mapping):
            return {put_number(key, STACK, number): numbered(each, number) for key, each in value.items()}
        return put_number(str(value), STACK, number)

    each = enumerate(part.strip() for part in stacks.split("|"))
    return {f"{put_number(left, STACK, n)} = {stack}": numbered(rows, n) for n, stack in each}


def put_number(name: str, variable: str, number: int) -> str:
    return re.sub(rf"(?<![^\W_]){variable}(?!\w)", str(number), name)  # of `experts.E`, and of `expert_E`
