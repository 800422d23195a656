"""Programs of a step for any number of rows, made of two that were recorded for a few.

All numbers in them grow evenly with the rows, as they do with the past: sizes, strides, places in memory. Where some do
not, or where the two are not made of the same instructions, there are no such programs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..model.decoding import Decoding
from .kinds import FLOAT32, TOLERANCE, OwnStep
from .lowering import TYPES
from .making import hold_to, hold_to_speed, program_for, results_of
from .merging import ProgramStep, place, same
from .packing import Packing
from .program import ALIGNMENT, StepProgram, Words
from .recording import NoProgram, Walker
from .threads import ThreadChoice
from .views import Affine, Slot, View

FEW_ROWS, MORE_ROWS = 3, 7  # or sequences, of the two
LEAST_ROWS = 2  # of what is made of them: a size of one is no size in a program
OTHER, UNEVEN = "its steps are others for other rows", "a number in it does not grow evenly with the rows"


class Between:
    """What programs for any number of rows are made of. Raises NoProgram.

    small, large  programs of one step; rows: how many each has
    threads       the choice of threads for batches of about one size
    """

    def __init__(self, small: StepProgram, large: StepProgram, rows: tuple[int, int]) -> None:
        self.small, self.large, self.rows = small, large, rows
        self.first = max(small.first, large.first)
        self.names = [*small.given]
        self.layouts = tuple(layout(each.given[name] for name in self.names) for each in (small, large))
        self.reached = reached(small, temporary=True), reached(large, temporary=True)
        self.outside = reached(small, temporary=False), reached(large, temporary=False)
        self.rooms, self.owners = temporary_rooms(large), [v.slot for v in large.code.reached if not v.slot.temporary]
        self.arenas = {1: large.arena}
        self.threads: dict[int, ThreadChoice] = {}
        self.slots = matched(small.words, large.words)
        for few_of, many_of in zip(extent(small), extent(large), strict=True):
            if few_of != many_of:
                raise NoProgram(OTHER)
        for one, other in zip(small.code.reached, large.code.reached, strict=True):
            for few, many in zip(one.dims, other.dims, strict=True):
                if few[0] != many[0] and few[1] != many[1]:
                    raise NoProgram("a tensor in it grows with the square of the rows")

    def program(self, rows: int, given: Mapping[str, Tensor]) -> StepProgram:
        """The step of so many rows over tensors that are given. Raises NoProgram."""
        return SizedProgram(self, rows, given)

    def memory(self, rows: int) -> tuple[dict[Slot, int], Tensor]:
        """Where the temporaries of so many rows lie, and the memory that they lie in: that of the large program so many
        times as large that each fits."""
        ends = self.whole(*self.reached, rows)[:, 1]
        times = max(1, math.ceil((ends / self.rooms[:, None]).max(initial=0.0)))
        if times not in self.arenas:
            arena = torch.empty(times * len(self.large.arena) + ALIGNMENT, dtype=torch.uint8)
            self.arenas[times] = arena[-arena.data_ptr() % ALIGNMENT :]
        return {slot: times * offset for slot, offset in self.large.offsets.items()}, self.arenas[times]

    def check_outside(self, rows: int, given: Mapping[str, Tensor]) -> None:
        """Raise NoProgram where so many rows would reach beyond the memory of what is given or fixed."""
        tensors = [given[slot.name] if slot.name else slot.tensor for slot in self.owners]
        rooms = np.array([each.untyped_storage().nbytes() for each in tensors if each is not None], np.int64)
        begins, ends = self.whole(*self.outside, rows).transpose(1, 0, 2)
        if (begins < 0).any() or (ends > rooms[:, None]).any():
            raise NoProgram("it would reach beyond a tensor for other rows")

    def whole(self, few: Any, many: Any, rows: int) -> Any:
        """A whole number, or an array of such, at so many rows, from those at few and at many."""
        part, rest = np.divmod((many - few) * (rows - self.rows[0]), self.rows[1] - self.rows[0])
        if np.any(rest):
            raise NoProgram(UNEVEN)
        return few + part

    def affine(self, few: Affine, many: Affine, rows: int) -> Affine:
        if few == many:
            return few
        return Affine(int(self.whole(few.base, many.base, rows)), int(self.whole(few.slope, many.slope, rows)))

    def view(self, few: View, many: View, rows: int) -> View:
        slot = self.slots.get(few.slot, few.slot)
        if slot is not many.slot and not (slot.name and slot.name == many.slot.name):
            raise NoProgram(OTHER)
        if few.dtype != many.dtype or len(few.sizes) != len(many.sizes):
            raise NoProgram(OTHER)
        numbers = [
            tuple(self.affine(one, other, rows) for one, other in zip(ones, others, strict=True))
            for ones, others in (((few.offset,), (many.offset,)), (few.sizes, many.sizes), (few.strides, many.strides))
        ]
        return View(many.slot, few.dtype, numbers[0][0], numbers[1], numbers[2])

    def step(self, few: ProgramStep, many: ProgramStep, rows: int) -> ProgramStep:
        """An operation that PyTorch is called for."""
        (ones, spec), (others, other_spec) = (
            tree_flatten((step.arguments, step.options, step.results)) for step in (few, many)
        )
        if few.function is not many.function or spec != other_spec:
            raise NoProgram(OTHER)
        leaves = [self.leaf(one, other, rows) for one, other in zip(ones, others, strict=True)]
        arguments, options, results = tree_unflatten(leaves, spec)
        return ProgramStep(few.name, few.function, arguments, options, results, few.makes)

    def leaf(self, few: Any, many: Any, rows: int) -> Any:
        if isinstance(few, View) and isinstance(many, View):
            return self.view(few, many, rows)
        if isinstance(few, Affine) and isinstance(many, Affine):
            return self.affine(few, many, rows)
        if few != many:
            raise NoProgram(UNEVEN)
        return few


class SizedProgram(StepProgram):
    """A program for a number of rows of which none was recorded."""

    def __init__(self, between: Between, rows: int, given: Mapping[str, Tensor]) -> None:
        few, many = between.small, between.large
        stands = layout(given[name] for name in between.names)
        few_stand, many_stand = between.layouts
        if len(stands) != len(few_stand) or (between.whole(few_stand, many_stand, rows) != stands).any():
            raise NoProgram("it is given tensors of other shapes for other rows")
        between.check_outside(rows, given)
        numbers: Sequence[NDArray[np.int64]] = [
            between.whole(getattr(few.words, kind), getattr(many.words, kind), rows) for kind in ("base", "slope")
        ]
        self.words = Words(numbers[0], numbers[1], many.words.places)
        self.outputs = {name: between.view(one, many.outputs[name], rows) for name, one in few.outputs.items()}
        self.callbacks = [
            between.step(one, other, rows) for one, other in zip(few.callbacks, many.callbacks, strict=True)
        ]
        self.code, self.given = many.code, dict(given)
        self.first, self.last = between.first, many.last
        self.offsets, self.arena = between.memory(rows)
        self.threads = between.threads.setdefault(rows.bit_length(), ThreadChoice())
        self._make_ready()


def reached(program: StepProgram, temporary: bool) -> NDArray[np.int64]:
    """(views, 2, 2): where each view of temporaries, or of what is not, begins and ends, in bytes from the beginning of
    its slot, at the first past and at the last."""
    views = [view for view in program.code.reached if view.slot.temporary is temporary]
    pasts = program.first, program.last
    places = [
        [[each(past) * view.dtype.itemsize for past in pasts] for each in (view.offset.at, view.end)] for view in views
    ]
    return np.array(places, np.int64).reshape(-1, 2, 2)


def temporary_rooms(program: StepProgram) -> NDArray[np.int64]:
    """(views,): how many bytes there are in the slot of each view of a temporary."""
    slots = [view.slot for view in program.code.reached if view.slot.temporary]
    sizes: dict[Slot, int] = dict.fromkeys(slots, ALIGNMENT)
    for slot, end in zip(slots, reached(program, temporary=True)[:, 1].max(axis=1, initial=0).tolist(), strict=True):
        sizes[slot] = max(sizes[slot], -(-end // ALIGNMENT) * ALIGNMENT)
    return np.array([sizes[slot] for slot in slots], np.int64)


def layout(tensors: Iterable[Tensor]) -> NDArray[np.int64]:
    """How tensors lie in memory, and what they are of."""
    numbers: list[int] = []
    for tensor in tensors:
        numbers += (TYPES.get(tensor.dtype, -1), int(tensor.storage_offset()), *tensor.shape, *tensor.stride())
    return np.array(numbers, np.int64)


def extent(program: StepProgram) -> tuple[int, int, int, int]:
    """What two programs of one step have in common: how much there is of each, and to which past they go."""
    return len(program.words.base), len(program.callbacks), len(program.code.reached), program.last


def matched(few: Words, many: Words) -> dict[Slot, Slot]:
    """Which memory of one program is which of another. Raises NoProgram."""
    by_places = {places.tobytes(): slot for slot, places in many.places.items()}
    slots: dict[Slot, Slot] = {}
    for slot, places in few.places.items():
        other = by_places.get(places.tobytes())
        if other is None or slot.name != other.name or (slot.tensor is None) != (other.tensor is None):
            raise NoProgram(OTHER)
        if slot.tensor is not None and other.tensor is not None and not one(slot.tensor, other.tensor):
            raise NoProgram("it reads other numbers from outside for other rows")
        slots[slot] = other
    return slots


def one(few: Tensor, many: Tensor) -> bool:
    """Whether tensors from outside are one, or alike."""
    return place(few) == place(many) or same(few, many)


@dataclass
class Sizes:
    """Programs of one kind of step for any number of rows.

    between  what they are made of; None as long as none was asked for, or where nothing is
    tried    whether it was to be made
    """

    between: Between | None = None
    tried: bool = False

    def program(
        self, model: OwnStep, decoding: Decoding, inputs: Mapping[str, Tensor], given: Mapping[str, Tensor],
        packing: Packing,
    ) -> StepProgram | None:  # fmt: skip
        """A program for this decoding; None where there is none."""
        past, ratio = decoding.longest, 1 if decoding.shared is None else decoding.shared.most
        if self.between is not None and past < self.between.first:
            self.between, self.tried = None, False  # it was made further on in a text
        fewest = ratio * (LEAST_ROWS if self.between else MORE_ROWS)
        if decoding.batch < fewest or (self.tried and self.between is None):
            return None
        try:
            if self.between is None:
                self.tried = True
                self.between = made_between(model, decoding, inputs, given, packing)
            program = self.between.program(decoding.batch, given)
        except Exception:  # whatever a word does: a program of its own is made, or none
            return None
        return program if past <= program.last else None


def made_between(
    model: OwnStep, decoding: Decoding, inputs: Mapping[str, Tensor], given: Mapping[str, Tensor], packing: Packing
) -> Between:
    """Made of two programs of a few rows of this decoding, and held to the model's own step. Raises NoProgram."""
    programs, counts = [], []
    for count in (FEW_ROWS, MORE_ROWS):
        few, rows = few_rows(decoding, count)
        own = {name: tensor[rows] for name, tensor in inputs.items()}
        programs.append(program_for(model, few, own, packing, must=True, varying=(count, few.batch)))
        counts.append(few.batch)
    between, past = Between(programs[0], programs[1], (counts[0], counts[1])), decoding.longest
    program, walker = between.program(decoding.batch, given), Walker(model, decoding, inputs, past + 2)
    hold_to(results_of(walker.step(past)), program, walker, past, TOLERANCE[packing.weights])
    if packing.weights == FLOAT32:
        hold_to_speed(program, walker, past)
    return between


def few_rows(decoding: Decoding, count: int) -> tuple[Decoding, Tensor]:
    """A copy of a few rows of a decoding, or of the rows of as many sequences, and which rows these are. Rows that
    agree stand behind one position: a program from there on serves the next text, too."""
    shared = decoding.shared
    rows = torch.arange(count) if shared is None else (shared.of_row < count).nonzero()[:, 0]
    few = copy.copy(decoding)
    few.states, few._spare = copy.deepcopy(decoding.states), {}
    few.select(rows)
    if few.start is not None:
        few.lengths = torch.ones_like(few.lengths)
        few._note_sizes([1] * few.batch)
    return few, rows
