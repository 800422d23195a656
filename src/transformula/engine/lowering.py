"""A merged step becomes the words of a program that `kernels.cpp` runs. What no kernel does, PyTorch is called for."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .build import numbers_of
from .merging import Merged, ProgramStep
from .packing import Packing
from .recording import NoProgram
from .views import ONE, ZERO, Affine, NoKernel, Slot, View, contiguous_strides

TYPES = {torch.float32: 0, torch.int64: 1, torch.bool: 2, torch.float64: 3, torch.int32: 4}
WORD = "word"  # the slot of a number that stands in the program itself

END, UNARY, BINARY, WHERE, LINEAR, MATMUL, NORM, SOFTMAX, ATTENTION, REDUCE, CUMSUM, PICK, IOTA = range(13)
ADDCMUL, CALL, GROUPED, TOPK = 13, 14, 15, 16
SAME = {
    "bitwise_and": "logical_and", "__and__": "logical_and", "bitwise_or": "logical_or", "__or__": "logical_or",
    "bitwise_not": "logical_not", "clone": "copy", "contiguous": "copy", "to": "copy", "_to_copy": "copy",
    "type_as": "copy", "reshape": "copy", "flatten": "copy", "unflatten": "copy", "concat": "cat",
}  # fmt: skip
"""Other names of operations."""
EMPTY = ("empty", "new_empty", "empty_like")


@dataclass(frozen=True)
class Address:
    """A word that is an address: so many bytes behind the beginning of a slot."""

    slot: Slot
    bytes: Affine


@dataclass(frozen=True)
class NumberCell:
    """A word that is the address of a number, which stands behind the program's instructions."""

    place: int


Word = Affine | Address | NumberCell


@dataclass
class Code:
    """What a program is made of.

    words      of its instructions; cells: numbers that stand behind them
    callbacks  operations that PyTorch makes
    reached    every view that it reads or writes
    """

    words: list[Word] = field(default_factory=list)
    cells: list[Affine] = field(default_factory=list)
    callbacks: list[ProgramStep] = field(default_factory=list)
    reached: list[View] = field(default_factory=list)


def constants(merged: Merged, varying: Collection[int] = ()) -> set[Slot]:
    """Memory that every step fills with the same numbers, of fixed ones alone: it is filled once. Not that of a tensor
    with a `varying` size: a program of other rows has it otherwise."""
    writers: dict[Slot, list[ProgramStep]] = {}
    for step in merged.steps:
        for view in step.changes:
            writers.setdefault(view.slot, []).append(step)
    fixed: set[Slot] = set()
    for slot, steps in writers.items():  # in the order of the steps: what is read was written before
        varies = any(size.base in varying for step in steps for view in step.results for size in view.sizes)
        if slot.temporary and len(steps) == 1 and not varies and is_constant(steps[0], fixed | {slot}):
            fixed.add(slot)
    return fixed


def is_constant(step: ProgramStep, fixed: set[Slot]) -> bool:
    leaves = tree_leaves((step.arguments, step.options, step.results))
    whole = not any(leaf.slope for leaf in leaves if isinstance(leaf, Affine))
    whole = whole and all(leaf.whole for leaf in leaves if isinstance(leaf, View))
    return whole and not step.random and all(view.slot.tensor is not None or view.slot in fixed for view in step.views)


class Lowering:
    """Lowers one merged step: `emit` writes an instruction.

    handlers  what makes instructions of operations that are not functions of one or two numbers, by the operations'
              names
    packing   which matrices are of one byte a number
    """

    def __init__(self, merged: Merged, handlers: Mapping[str, Handler], packing: Packing) -> None:
        self.merged, self.handlers, self.packing = merged, handlers, packing
        self.code = Code()
        self.unary, self.binary = numbers_of("unary"), numbers_of("binary")

    def lower(self) -> Code:
        """The whole step. Raises NoProgram."""
        for step in self.needed():
            mark = len(self.code.words)
            try:
                self.lower_step(step)
            except NoKernel:
                del self.code.words[mark:]
                self.call(step)
        self.leave()
        self.emit(END, *map(self.address, self.merged.outputs.values()))  # so that their memory is kept to the end
        return self.code

    def needed(self) -> list[ProgramStep]:
        """The steps, but views, on which outputs, or what is left, depend."""
        wanted = {view.slot for view in (*self.merged.outputs.values(), *self.merged.left.values())}
        kept = []
        for step in reversed(self.merged.steps):
            changed = step.changes
            if all(view.slot.tensor is not None and not step.writes for view in changed):
                continue  # made once, or a view
            if any(view.slot in wanted or not view.slot.temporary for view in changed):
                kept.append(step)
                wanted |= {view.slot for view in step.views}
        return kept[::-1]

    def lower_step(self, step: ProgramStep) -> None:
        if any(view.dtype not in TYPES for view in (*step.views, *step.results)):
            raise NoKernel
        out = step.results[0]
        name = step.name.removesuffix("_") if step.writes else step.name
        name = SAME.get(name, name)
        if handler := self.handlers.get(name):
            handler(self, step, out)
        elif name in self.unary:
            self.function(name, out, step.arguments[0])
        elif name in self.binary:
            self.two(name, out, *step.arguments[:2])
        elif name not in EMPTY:
            raise NoKernel

    def leave(self) -> None:
        """Copy what states hold after the step to where they hold it."""
        moved = []
        for name, view in self.merged.left.items():
            before = self.merged.given[name]
            if view == before:
                continue
            if view.sizes != before.sizes or view.dtype != before.dtype:
                raise NoProgram(f"{name} changes its size from step to step")
            if view.slot.name:  # one state in the place of another, which may be overwritten first
                view = self.copied(view)
            moved.append((before, view))
        for before, view in moved:
            self.function("copy", before, view)

    def call(self, step: ProgramStep) -> None:
        """Let PyTorch make a step. The addresses say how long memory is in use."""
        self.emit(CALL, len(self.code.callbacks), *map(self.address, (*step.views, *step.results)))
        self.code.callbacks.append(step)

    def emit(self, opcode: int, *words: Word | int) -> None:
        self.code.words += [Affine(opcode), Affine(len(words) + 2)]
        self.code.words += [Affine(word) if isinstance(word, int) else word for word in words]

    def address(self, view: View | None) -> Word:
        """Where a view begins; 0 for none."""
        if view is None:
            return ZERO
        if view.slot.name == WORD:
            self.code.cells.append(view.offset)
            return NumberCell(len(self.code.cells) - 1)
        self.code.reached.append(view)
        return Address(view.slot, view.offset.times(view.dtype.itemsize))

    def tensors(self, *views: View) -> list[Word]:
        """The words of tensors, each with its own dimensions."""
        words: list[Word] = []
        for view in map(View.padded, views):
            words += [self.address(view), Affine(TYPES[view.dtype]), *view.sizes, *view.strides]
        return words

    def aligned(self, *views: View) -> list[Word]:
        """The words of tensors that are broadcast to the shape of the first. Neighboring dimensions are one where all
        allow it."""
        shape = views[0].sizes
        rows = [view.expanded(shape) for view in views]
        joined: list[tuple[Affine, ...]] = []
        for dim in [(n, *(row.strides[d] for row in rows)) for d, n in enumerate(shape) if n != ONE]:
            if joined and follows(joined[-1], dim):
                joined[-1] = (joined[-1][0].times(dim[0]), *dim[1:])
            else:
                joined.append(dim)
        return self.tensors(*(row.with_dims([(d[0], d[1 + n]) for d in joined]) for n, row in enumerate(rows)))

    def number(self, value: Any, like: View) -> View:
        """A number as a tensor without dimensions, in the program's own words; a view as it is."""
        if isinstance(value, View):
            return value
        if isinstance(value, Affine) and value.slope:
            return View(Slot(WORD), torch.int64, value, (), ())
        number = float(value.base if isinstance(value, Affine) else value)
        dtype = torch.float32 if like.dtype == torch.float32 else torch.float64
        return View(Slot(WORD), dtype, Affine(bits(number, dtype)), (), ())

    def new(self, sizes: Sequence[Affine], dtype: torch.dtype) -> View:
        """Memory for a result."""
        return View(Slot(), dtype, ZERO, tuple(sizes), tuple(contiguous_strides(sizes)))

    def copied(self, view: View) -> View:
        copy = self.new(view.sizes, view.dtype)
        self.function("copy", copy, view)
        return copy

    def contiguous(self, view: View) -> View:
        """The view, or a copy of it whose numbers lie side by side."""
        return view if view.contiguous else self.copied(view)

    def with_rows(self, view: View) -> View:
        """The view, or a copy of it, in whose rows numbers lie side by side."""
        return view if ONE in (view.strides[-1], view.sizes[-1]) else self.copied(view)

    def packed(self, matrix: View) -> tuple[View, View | None, View | None]:
        """A matrix as it is multiplied with; where that is in bytes, the scales of its rows and their offsets."""
        packed = self.packing.of(matrix.slot.tensor)
        if packed is None or matrix.offset != ZERO:
            return matrix, None, None
        panels, scales, offsets = (
            View(Slot(tensor=tensor), tensor.dtype, ZERO, (Affine(tensor.numel()),), (ONE,)) for tensor in packed
        )
        return panels, scales, offsets

    def function(self, name: str, out: View, x: View) -> None:
        """out = f(x), number by number."""
        self.emit(UNARY, *self.aligned(out, x), self.unary[name])

    def two(self, name: str, out: View, x: Any, y: Any) -> None:
        """out = f(x, y), number by number; one of them may be a number."""
        views = [self.number(each, x if isinstance(x, View) else y) for each in (x, y)]
        self.emit(BINARY, *self.aligned(out, *views), self.binary[name])


def follows(outer: tuple[Affine, ...], inner: tuple[Affine, ...]) -> bool:
    """Whether the entries of a dimension lie where those of the one inside it go on, in all tensors and at all lengths
    of the past; both are (size, strides ...)."""
    if outer[0].slope and inner[0].slope:
        return False
    return all(
        far.at(past) == near.at(past) * inner[0].at(past)
        for past in (0, 1, 2)  # equal at three, two polynomials of the second degree are
        for far, near in zip(outer[1:], inner[1:], strict=True)
    )


def bits(number: float, dtype: torch.dtype = torch.float64) -> int:
    """The word that holds a number."""
    packed = struct.pack("<f4x" if dtype == torch.float32 else "<d", number)
    return int(struct.unpack("<q", packed)[0])


Handler = Callable[[Lowering, ProgramStep, View], None]
