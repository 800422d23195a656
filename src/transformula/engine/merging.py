"""Recordings of one step at several lengths of the past, merged into one: every number is base + slope * past.

Each operand of an operation becomes a `View` of a place in memory (`Slot`). Where two recordings differ otherwise, the
step is no program, and `NoProgram` says why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from .recording import NoProgram, Operation, Recording
from .views import Affine, Slot, View


@dataclass(eq=False)
class ProgramStep:
    """An operation of the merged step: `arguments` and `options` with Views in the place of tensors and Affines in that
    of whole numbers; `results` are what it makes or changes."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    results: list[View]
    makes: bool  # new memory, not a view of what there was

    @property
    def views(self) -> list[View]:
        return [leaf for leaf in tree_leaves((self.arguments, self.options)) if isinstance(leaf, View)]

    @property
    def changes(self) -> list[View]:
        """What it writes into: its results, or, of an operation in place, what it is given for that."""
        if self.makes or self.writes:
            return self.results
        return []

    @property
    def writes(self) -> bool:
        """Whether it works in place."""
        return any(argument.alias_info and argument.alias_info.is_write for argument in self.function._schema.arguments)

    @property
    def random(self) -> bool:
        return torch.Tag.nondeterministic_seeded in self.function.tags


@dataclass
class Merged:
    """A step at every length of the past. `outputs` by name; `left`: what states hold after it, by name."""

    steps: list[ProgramStep] = field(default_factory=list)
    outputs: dict[str, View] = field(default_factory=dict)
    left: dict[str, View] = field(default_factory=dict)
    given: dict[str, View] = field(default_factory=dict)


def merge(recordings: Sequence[Recording]) -> Merged:
    """One step of several recordings. Raises NoProgram."""
    return Merger(recordings).merge()


class Merger:
    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = recordings
        self.pasts = [recording.past for recording in recordings]
        self.slots: list[dict[int, Slot]] = [{} for _ in recordings]

    def merge(self) -> Merged:
        merged = Merged()
        for name in self.recordings[0].given:
            merged.given[name] = self.given(name)
        rows = zip(*(recording.operations for recording in self.recordings), strict=False)
        if len({len(recording.operations) for recording in self.recordings}) > 1:
            raise NoProgram("its operations depend on the length of the past")
        for row in rows:
            merged.steps.append(self.step(row))
        for kind in ("outputs", "left"):
            for name in getattr(self.recordings[0], kind):
                tensors = [getattr(recording, kind)[name] for recording in self.recordings]
                getattr(merged, kind)[name] = self.view(tensors)
        return merged

    def given(self, name: str) -> View:
        tensors = [recording.given[name] for recording in self.recordings]
        known = [slots.get(place(tensor)) for slots, tensor in zip(self.slots, tensors, strict=True)]
        if known[0] is None:
            slot = Slot(name)
            for slots, tensor in zip(self.slots, tensors, strict=True):
                slots[place(tensor)] = slot
        return self.view(tensors)

    def step(self, row: tuple[Operation, ...]) -> ProgramStep:
        first = row[0]
        if any(operation.function is not first.function for operation in row):
            raise NoProgram("its operations depend on the length of the past")
        flat = [tree_flatten((operation.arguments, dict(operation.options))) for operation in row]
        if any(spec != flat[0][1] for _, spec in flat):
            raise NoProgram(f"{first.name} is given other things at another length of the past")
        arguments, options = tree_unflatten(
            [self.leaf(first.name, leaves) for leaves in zip(*(leaves for leaves, _ in flat), strict=True)], flat[0][1]
        )
        results = [[leaf for leaf in tree_leaves(o.result) if isinstance(leaf, Tensor)] for o in row]
        made = [place(tensors[0]) not in slots for tensors, slots in zip(results, self.slots, strict=True)]
        views = [self.result(list(tensors), made[0]) for tensors in zip(*results, strict=True)]
        step = ProgramStep(first.name, first.function, arguments, options, views, made[0])
        if step.writes and made[0]:
            raise NoProgram(f"{first.name} changes what it is given")
        return step

    def result(self, tensors: list[Tensor], made: bool) -> View:
        if made:
            slot = Slot()
            for slots, tensor in zip(self.slots, tensors, strict=True):
                slots.setdefault(place(tensor), slot)
        return self.view(tensors)

    def leaf(self, name: str, leaves: Sequence[Any]) -> Any:
        first = leaves[0]
        if isinstance(first, Tensor):
            return self.view(leaves)
        if type(first) is int and all(type(leaf) is int for leaf in leaves):
            return self.affine(leaves)
        if any(leaf != first for leaf in leaves):
            if all(isinstance(leaf, int | float) and float(leaf).is_integer() for leaf in leaves):
                return self.affine([int(leaf) for leaf in leaves])
            raise NoProgram(f"{name} is given {first!r} at one length of the past and others at others")
        return first

    def affine(self, numbers: Sequence[int]) -> Affine:
        pasts = self.pasts
        slope, rest = divmod(numbers[1] - numbers[0], pasts[1] - pasts[0])
        found = Affine(numbers[0] - slope * pasts[0], slope)
        if rest or any(found.at(past) != number for past, number in zip(pasts, numbers, strict=True)):
            raise NoProgram("a number in it does not grow evenly with the past")
        return found

    def affines(self, rows: Iterable[Sequence[int]]) -> tuple[Affine, ...]:
        return tuple(self.affine(numbers) for numbers in rows)

    def view(self, tensors: Sequence[Tensor]) -> View:
        if len({(tensor.dim(), tensor.dtype) for tensor in tensors}) > 1:
            raise NoProgram("a tensor in it changes its kind with the length of the past")
        if any(tensor.layout != torch.strided or tensor.is_complex() for tensor in tensors):
            raise NoProgram("it has sparse or complex tensors")
        found = [slots.get(place(tensor)) for slots, tensor in zip(self.slots, tensors, strict=True)]
        slot = found[0]
        if any(other is not slot for other in found):
            raise NoProgram("two tensors of one length of the past are one at another")
        if slot is None:
            slot = self.fixed(tensors)
        return View(
            slot,
            tensors[0].dtype,
            self.affine([int(tensor.storage_offset()) for tensor in tensors]),
            self.affines(zip(*(tensor.shape for tensor in tensors), strict=True)),
            self.affines(zip(*(tensor.stride() for tensor in tensors), strict=True)),
        )

    def fixed(self, tensors: Sequence[Tensor]) -> Slot:
        """The slot of tensors from outside: weights, tables, constants."""
        first = tensors[0]
        if len({place(tensor) for tensor in tensors}) > 1 and not all(same(first, tensor) for tensor in tensors):
            raise NoProgram("it reads numbers from outside that depend on the length of the past")
        slot = Slot(tensor=first)
        for slots, tensor in zip(self.slots, tensors, strict=True):
            slots[place(tensor)] = slot
        return slot


def same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and first.stride() == second.stride() and torch.equal(first, second)


def place(tensor: Tensor) -> int:
    """What tells one piece of memory from another."""
    return int(tensor.untyped_storage()._cdata)
