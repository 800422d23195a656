"""A program: words in memory, the memory of its temporaries, and a call of the kernels."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from .build import CALL, library
from .instructions import HANDLERS
from .kinds import pool
from .lowering import Address, Code, Lowering, NumberCell, Word, constants
from .merging import Merged, ProgramStep, merge
from .packing import Packing
from .recording import Recording
from .threads import ThreadChoice, use_threads
from .views import Affine, Slot, View

ALIGNMENT = 64  # bytes
CELLS = Slot("the words of the program itself")


@dataclass(eq=False)
class Words:
    """The words of a program, then its cells, each as base + slope * past, counted in bytes from the beginning of the
    memory that it is an address of: `places` are those of each slot."""

    base: NDArray[np.int64]
    slope: NDArray[np.int64]
    places: dict[Slot, NDArray[np.int64]]


class StepProgram:
    """One decoding step, for any length of the past from `first` to `last`, over tensors of the recordings' shapes.

    `bind` says where the tensors that differ from text to text lie; `run` makes a step: what it writes into caches and
    states is there afterwards, and it returns the outputs by name, which the next step overwrites.
    """

    def __init__(
        self, recordings: Sequence[Recording], first: int, last: int, packing: Packing | None = None,
        varying: Collection[int] = (),
    ) -> None:  # fmt: skip
        merged = merge(recordings)
        fix(merged, recordings[0], varying)
        self.outputs, self.first = merged.outputs, first
        self.code = Lowering(merged, HANDLERS, packing or Packing()).lower()
        self.given = dict(recordings[0].given)
        self.last = self._last(last)
        self.offsets, self.arena = self._place()
        self.words, self.callbacks, self.threads = words_of(self.code), self.code.callbacks, ThreadChoice()
        self._make_ready()

    def _make_ready(self) -> None:
        self._relocations = self._resolve()
        self.library = library()
        self._failed: BaseException | None = None
        self._past = 0
        self._made: dict[int, Any] = {}
        self._outputs: dict[str, Tensor] | None = None
        self._alike = all(view.whole for view in self.outputs.values())
        self._call = CALL(self._callback)
        arrays = (self.base, self.slope, self.now)
        self._words = *(ctypes.c_void_p(array.ctypes.data) for array in arrays), ctypes.c_int64(len(self.base))

    def _last(self, last: int) -> int:
        """The last past at which every view lies within the memory that it is of."""

        def within(past: int) -> bool:
            return all(view.offset.at(past) >= 0 and view.end(past) <= self._room(view) for view in outside)

        outside = [view for view in self.code.reached if not view.slot.temporary]
        low, high = self.first - 1, last
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if within(middle) else (low, middle - 1)
        return low

    def _room(self, view: View) -> int:
        """How many elements the memory of a slot that is given or fixed holds."""
        tensor = self.given[view.slot.name] if view.slot.name else view.slot.tensor
        assert tensor is not None
        return tensor.untyped_storage().nbytes() // view.dtype.itemsize

    def _place(self) -> tuple[dict[Slot, int], Tensor]:
        """Where each temporary lies in one piece of memory, and that."""
        sizes: dict[Slot, int] = {}
        for view in self.code.reached:
            if view.slot.temporary:
                needed = max(view.end(past) for past in (self.first, self.last)) * view.dtype.itemsize
                sizes[view.slot] = max(sizes.get(view.slot, 0), needed)
        offsets, total = memory(self.code.words, sizes)
        arena = torch.empty(total + 2 * ALIGNMENT, dtype=torch.uint8)
        return offsets, arena[-arena.data_ptr() % ALIGNMENT :]

    def _resolve(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Make addresses of the words; where those of what is given stand, and the bytes behind its beginning."""
        self.base, self.slope = self.words.base.copy(), self.words.slope
        self.now = np.zeros_like(self.base)
        relocations = {}
        for slot, places in self.words.places.items():
            if slot is CELLS:
                self.base[places] += self.now.ctypes.data
            elif slot.name:
                relocations[slot.name] = places, self.base[places]
            elif slot.tensor is not None:
                self.base[places] += slot.tensor.untyped_storage().data_ptr()
            else:
                self.base[places] += self.arena.data_ptr() + self.offsets[slot]
        return relocations

    @property
    def reads(self) -> Iterable[str]:
        """Names of what is given that it reads or writes."""
        return self._relocations.keys()

    def bind(self, given: Mapping[str, Tensor]) -> None:
        """Take these tensors, of the same shapes and strides as those of the recordings."""
        self.given, self._outputs = dict(given), None
        self._made.clear()
        for name, (places, behind) in self._relocations.items():
            self.base[places] = self.given[name].untyped_storage().data_ptr() + behind

    def run(self, past: int) -> dict[str, Tensor]:
        """Make the step after `past` positions. Raises what an operation of PyTorch's raises."""
        self._past = past
        threads = self.threads.next(torch.get_num_threads() if pool() else 1)
        begun = time.perf_counter()
        use_threads(threads)
        self.library.run(*self._words, ctypes.c_int64(past), self._call)
        self.threads.took(threads, time.perf_counter() - begun)
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        if self._outputs is None or not self._alike:
            self._outputs = {name: self.tensor(view) for name, view in self.outputs.items()}
        return self._outputs

    def tensor(self, view: View) -> Tensor:
        """A view as a tensor, at the present length of the past."""
        past = self._past
        sizes, strides = view.shape(past), [stride.at(past) for stride in view.strides]
        slot = view.slot
        if not slot.temporary:
            base = self.given[slot.name] if slot.name else slot.tensor
            assert base is not None
            return torch.as_strided(base, sizes, strides, view.offset.at(past))
        offset = self.offsets[slot]
        typed = self.arena[offset : offset + view.end(past) * view.dtype.itemsize].view(view.dtype)
        return torch.as_strided(typed, sizes, strides, typed.storage_offset() + view.offset.at(past))

    def _callback(self, number: int) -> None:
        try:
            operate = self._made.get(number)
            if operate is None:
                step = self.callbacks[number]
                operate = self._operation(step)
                if all(leaf.whole if isinstance(leaf, View) else not leaf.slope for leaf in places(step)):
                    self._made[number] = operate
            operate()
        except BaseException as error:  # a callback cannot raise through the kernels
            self._failed = self._failed or error

    def _operation(self, step: ProgramStep) -> Callable[[], None]:
        """What PyTorch does for a step, at the present length of the past."""
        given = tree_map_only(View, self.tensor, (step.arguments, step.options))
        arguments, options = tree_map_only(Affine, lambda number: number.at(self._past), given)
        results = [] if step.writes else [self.tensor(view) for view in step.results]

        def operate() -> None:
            made = step.function(*arguments, **options)
            for result, own in zip(results, made if isinstance(made, tuple | list) else [made], strict=False):
                result.copy_(own)

        return operate


def words_of(code: Code) -> Words:
    """The words of a program as numbers."""
    count = len(code.words)
    numbers = np.zeros((count + len(code.cells), 2), np.int64)
    places: dict[Slot, list[int]] = {}
    for place, word in enumerate(code.words):
        if isinstance(word, NumberCell):
            numbers[place] = 8 * (count + word.place), 0
            places.setdefault(CELLS, []).append(place)
        else:
            number = word.bytes if isinstance(word, Address) else word
            numbers[place] = number.base, number.slope
            if isinstance(word, Address):
                places.setdefault(word.slot, []).append(place)
    for place, cell in enumerate(code.cells, count):
        numbers[place] = cell.base, cell.slope
    base, slope = (np.ascontiguousarray(each) for each in numbers.T)
    return Words(base, slope, {slot: np.array(each) for slot, each in places.items()})


def seconds(step: Callable[[int], Any], past: int) -> float:
    """How long a step takes."""
    begun = time.perf_counter()
    step(past)
    return time.perf_counter() - begun


def places(step: ProgramStep) -> list[View | Affine]:
    """All that a step is given or gives that may depend on the past."""
    leaves = tree_leaves((step.arguments, step.options, step.results))
    return [leaf for leaf in leaves if isinstance(leaf, View | Affine)]


def fix(merged: Merged, recording: Recording, varying: Collection[int] = ()) -> None:
    """Let memory that every step fills alike be fixed, with the numbers that it had in a recording."""
    found = constants(merged, varying)
    for step, operation in zip(merged.steps, recording.operations, strict=True):
        made = operation.result if isinstance(operation.result, tuple | list) else [operation.result]
        tensors = [tensor for tensor in made if isinstance(tensor, Tensor)]
        for view, tensor in zip(step.results, tensors, strict=True):
            if view.slot in found and view.slot.tensor is None:
                view.slot.tensor = tensor


def memory(words: Sequence[Word], sizes: dict[Slot, int]) -> tuple[dict[Slot, int], int]:
    """Where each temporary lies: bytes from the beginning, and how many there are in all. Two share memory where one is
    met for the first time in an instruction after that in which the other was met for the last."""
    lives: dict[Slot, list[int]] = {}
    begin = end = 0
    for place, word in enumerate(words):
        if place == end:  # an instruction begins; its second word says how long it is
            length = words[place + 1]
            assert isinstance(length, Affine)
            begin, end = place, place + length.base
        if isinstance(word, Address) and word.slot in sizes:
            lives.setdefault(word.slot, [begin, begin])[1] = begin
    placed: list[tuple[int, int, int, int]] = []  # begin and end in bytes, the instructions of its first and last use
    offsets: dict[Slot, int] = {}
    for slot, (first, last) in sorted(lives.items(), key=lambda item: -sizes[item[0]]):
        size = max(1, math.ceil(sizes[slot] / ALIGNMENT)) * ALIGNMENT
        at = 0
        for begin, end, other_first, other_last in sorted(placed):
            if other_last < first or last < other_first or at >= end:
                continue
            if at + size <= begin:
                break
            at = end
        offsets[slot] = at
        placed.append((at, at + size, first, last))
    return offsets, max((end for _, end, _, _ in placed), default=0)

