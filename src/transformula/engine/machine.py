"""The machine of a model: makes its decoding steps by programs, and by the model's own code where there is none."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..errors import InputError, setting
from ..model.decoding import Decoding
from .between import Sizes
from .build import library
from .choosing import best_tokens
from .kinds import COMPILING, FEW, FEWEST_STEPS, KERNELS, MOST_PROMPT_TOKENS, OwnStep
from .making import program_for, room_of
from .packing import Packing
from .program import StepProgram
from .prompts import FEWEST_PROMPTS, MOST_SECONDS, PASSES, PromptProgram
from .recording import NoProgram, make_room, states_of

MAX_ASKED = 1000  # sizes that are remembered without a program
FEWEST_RECORDED = 3  # steps of which a program can be made
MAX_FAILURES = 3  # in a row, after which no program is looked for
Key = tuple[Any, ...]


@dataclass
class Bound:
    """A program that stands over the memory of one decoding."""

    program: StepProgram
    decoding: Decoding
    version: int
    inputs: dict[str, Tensor]
    lengths: Tensor


@dataclass
class Machine:
    """Steps of one model with the weights that it has now.

    packing   how its matrices are multiplied with
    must      whether a step that no program makes is an error
    brief     batches are of one size for a few steps only: how many are to come says little
    asked     how many steps of a kind were asked for that no program was made for yet, as few were to come
    programs  by the shapes of what they stand over
    sizes     programs for any number of rows, by the kind of step
    readers   programs that read prompts of so many rows; None: none can
    made      how many steps programs made
    left      how many were left to the model's own code, by the reason
    told      the reasons that were said
    """

    packing: Packing = field(default_factory=Packing)
    must: bool = False
    brief: bool = False
    asked: Counter[Key] = field(default_factory=Counter)
    programs: dict[Key, list[StepProgram]] = field(default_factory=dict)
    sizes: dict[Key, Sizes] = field(default_factory=dict)
    failures: dict[Key, list[str]] = field(default_factory=dict)
    readers: dict[int, PromptProgram | None] = field(default_factory=dict)
    bound: dict[int, Bound] = field(default_factory=dict)
    made: int = 0
    left: Counter[str] = field(default_factory=Counter)
    told: set[str] = field(default_factory=set)

    def step(self, model: OwnStep, tokens: Tensor, decoding: Decoding, **others: Tensor) -> Any:
        """As `model.step(tokens, decoding, **others)`, one position of each row or a few. What a program returns is
        overwritten by the next step."""
        try:
            bound = self.bound_to(model, tokens, decoding, others)
        except NoProgram as error:
            if self.must:
                what = f"{setting('engine', KERNELS)}: PyTorch would make a step of this text, since {error}"
                raise InputError(f"{what}; leave it at auto") from error
            self.left[str(error)] += 1
            with self.reading(tokens.numel()):
                return model.step(tokens, decoding, **others)
        self.made += 1
        return run(bound, tokens, decoding, others)

    def read(
        self, own: OwnStep, start: Callable[[int, int], Decoding], tokens: Tensor, decoding: Decoding
    ) -> Any:
        """Read prompts of one length into an empty decoding, as `own.step(tokens, decoding, last=True)`: the logits
        behind each, (rows, 1, vocab)."""
        rows, length = tokens.shape
        reader = self.readers.get(rows)
        if reader is not None and reader.reads(tokens):
            return reader.read(tokens, decoding)
        begun = time.perf_counter()
        with self.reading(tokens.numel()):
            logits = own.step(tokens, decoding, last=True)
        took = time.perf_counter() - begun
        self.asked["prompts", rows] += 1
        soon = PASSES * took * MOST_PROMPT_TOKENS / length < MOST_SECONDS
        if rows not in self.readers and self.asked["prompts", rows] >= FEWEST_PROMPTS and soon:
            self.readers[rows] = None
            with suppress(Exception):  # whatever a word does: its own code reads it all the same
                self.readers[rows] = PromptProgram(own, start, tokens, self.packing)
        return logits

    def greedy(
        self, model: OwnStep, tokens: Tensor, decoding: Decoding, count: int, vocab: int
    ) -> tuple[Tensor, Tensor] | None:
        """Greedy decoding of up to `count` steps after tokens (batch, 1), among the first `vocab` tokens: the ids
        (batch, count) and their log probabilities (batch, count). None where no program makes the steps."""
        try:
            bound = self.bound_to(model, tokens, decoding, {}, make=False)
        except NoProgram:
            return None
        count = min(count, bound.program.last + 1 - decoding.longest, decoding.capacity - decoding.longest)
        bound.inputs["tokens"].copy_(tokens)
        bound.lengths.copy_(decoding.lengths)
        ids, logs = tokens.new_empty(len(tokens), count), torch.empty(len(tokens), count)
        for step in range(count):
            logits = bound.program.run(decoding.longest + step)["logits"][:, -1, :vocab]
            ids[:, step : step + 1], logs[:, step : step + 1] = best_tokens(logits, logits, 1)
            bound.inputs["tokens"].copy_(ids[:, step, None])
            bound.lengths.add_(1)
        self.made += count
        decoding.advance(count, None)
        return ids, logs

    def untold(self) -> set[str]:
        """The reasons to say: none twice, and none of what ends by itself."""
        reasons = self.left.keys() - self.told - {FEW, COMPILING}
        self.told |= reasons
        return reasons

    def reading(self, count: int) -> AbstractContextManager[None]:
        """What the model's own code makes of so many tokens within it kernels help to make."""
        from .reading import reading_of

        return reading_of(self.packing, count)

    def bound_to(
        self, model: OwnStep, tokens: Tensor, decoding: Decoding, others: Mapping[str, Tensor], make: bool = True
    ) -> Bound:
        """A program for the next step of this decoding: one that there is, or, if `make`, a new one. Raises
        NoProgram."""
        length, past = tokens.shape[1], decoding.longest
        bound = self.bound.get(length)
        if (
            bound is not None
            and bound.decoding is decoding
            and bound.version == decoding.version
            and bound.program.first <= past <= bound.program.last
        ):
            return bound
        make_room(decoding, room_of(decoding), agree=self.brief and decoding.start is not None)
        states = states_of(decoding, lazily=True)
        key = key_of(decoding, states, length, others)
        inputs = {name: tensor.clone() for name, tensor in {"tokens": tokens, **others}.items()}
        lengths = decoding.lengths.clone()
        given = {**{f"input.{name}": tensor for name, tensor in inputs.items()}, "lengths": lengths, **states}
        kind = kind_of(decoding, states, length, others)
        program = next((p for p in self.programs.get(key, ()) if p.first <= past <= p.last), None)
        if program is None and kind in self.sizes:
            program = self.sizes[kind].program(model, decoding, inputs, given, self.packing)
        if program is None and not make:
            raise NoProgram(FEW)
        if program is None:
            program = self.new((key, kind), model, decoding, inputs, given)
        bound = self.bound[length] = Bound(program, decoding, decoding.version, inputs, lengths)
        if any(given[name].is_meta for name in program.reads):
            given |= states_of(decoding)
        program.bind(given)
        return bound

    def new(
        self, keys: tuple[Key, Key], model: OwnStep, decoding: Decoding, inputs: Mapping[str, Tensor],
        given: Mapping[str, Tensor],
    ) -> StepProgram:  # fmt: skip
        """A new program from this past on; where rows come and go one that serves other numbers of them, too. Raises
        NoProgram."""
        key, kind = keys
        if len(self.asked) > MAX_ASKED:
            self.asked.clear()
        self.asked[kind] += 1
        left = decoding.capacity - decoding.longest
        expected = self.asked[kind] + (0 if self.brief else left)
        if (expected < FEWEST_STEPS or left < FEWEST_RECORDED) and not self.must:
            raise NoProgram(FEW)
        failures = self.failures.setdefault(key, [])
        if len(failures) >= MAX_FAILURES:
            raise NoProgram(failures[-1])
        library()
        sizes = self.sizes.setdefault(kind, Sizes())
        program = sizes.program(model, decoding, inputs, given, self.packing) if self.brief else None
        if program is not None:
            return program
        try:
            program = program_for(model, decoding, inputs, self.packing, self.must)
        except NoProgram as error:
            failures.append(str(error))
            raise
        failures.clear()
        # one that was made further on in a text makes nothing that this one does not
        before = self.programs.get(key, [])
        kept = [each for each in before if each.first < program.first or each.last > program.last]
        self.programs[key] = [*kept, program]
        return program


def run(bound: Bound, tokens: Tensor, decoding: Decoding, others: Mapping[str, Tensor]) -> Any:
    for name, tensor in {"tokens": tokens, **others}.items():
        bound.inputs[name].copy_(tensor)
    bound.lengths.copy_(decoding.lengths)
    outputs = bound.program.run(decoding.longest)
    decoding.advance(tokens.shape[1], None)
    return outputs["logits"] if outputs.keys() == {"logits"} else outputs


def key_of(decoding: Decoding, states: Mapping[str, Tensor], length: int, others: Mapping[str, Tensor]) -> Key:
    """What a program of one decoding, which holds these tensors, needs to serve another."""
    tensors = {**states, **others}
    shapes = ((name, t.dtype, t.shape, t.stride(), t.storage_offset()) for name, t in tensors.items())
    shared = None if decoding.shared is None else (decoding.shared.count, decoding.shared.most)
    return (decoding.batch, length, room_of(decoding), decoding.start is None, shared, *shapes)


def kind_of(decoding: Decoding, states: Mapping[str, Tensor], length: int, others: Mapping[str, Tensor]) -> Key:
    """What is alike in programs of one step for all numbers of rows."""
    kinds = ((name, t.dtype, t.stride()) for name, t in {**states, **others}.items())
    shared = decoding.shared
    each = None if shared is None else (shared.most, decoding.batch / shared.count)
    return (length, room_of(decoding), decoding.start is None, each, *kinds)


_MACHINES: WeakKeyDictionary[nn.Module, tuple[Key, list[Machine]]] = WeakKeyDictionary()
"""What the machines of each model were made for, and those that nobody uses."""
_LOCK = threading.Lock()


def identity_of(model: nn.Module) -> Key:
    """What changes when weights or modules do."""
    key: list[Any] = [type(model)]
    for module in model.modules():  # in one pass, since each text asks
        key.append(id(module))
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                key.append((tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version))
    return tuple(key)


def take_machine(model: nn.Module, weights: str, must: bool = False, brief: bool = False) -> Machine:
    """A machine for the weights that a model has now, which nobody else uses until it is given back."""
    key = identity_of(model)
    with _LOCK:
        known, idle = _MACHINES.get(model, ((), []))
        if known != key:
            idle = []
            _MACHINES[model] = key, idle
        machine = next((each for each in idle if each.packing.weights == weights), None)
        if machine is not None:
            idle.remove(machine)
    machine = machine or Machine(Packing(weights, model))
    machine.must, machine.brief = must, brief
    return machine


def give_back(model: nn.Module, machine: Machine) -> None:
    machine.bound.clear()
    with _LOCK:
        _MACHINES.get(model, ((), []))[1].append(machine)
