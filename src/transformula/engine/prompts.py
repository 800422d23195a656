"""Programs that read prompts: of a few rows of one length, over that length instead of that of the past."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..model.decoding import Decoding
from ..model.segment_memory import put, tensors_of
from ..words import grouped
from ..words.cache import Cache, CrossCache, Kept
from ..words.tables import at_least
from .kinds import FEWEST_PROMPT_TOKENS, MOST_PROMPT_TOKENS, TOLERANCE, OwnStep
from .packing import Packing
from .program import StepProgram, seconds
from .recording import NoProgram, Recording, StepRecorder, Unread, make_room, numbers_in, states_of

FEWEST_PROMPTS = 16  # of so many rows that were read, for a program to be worth making
PASSES, MOST_SECONDS = 8, 1.0  # of the longest prompt, that making a program takes; in how many seconds it may
TURNS = 3  # of a program beside the model's own code


class PromptProgram:
    """Reads prompts (rows, length) into empty decodings: what `step(tokens, decoding, last=True)` does of a model."""

    def __init__(
        self, own: OwnStep, start: Callable[[int, int], Decoding], tokens: Tensor, packing: Packing
    ) -> None:
        self.packing, self.room = packing, min(MOST_PROMPT_TOKENS, own.limit or MOST_PROMPT_TOKENS) + 2
        self.tokens = tokens[:, :1].repeat(1, self.room)
        self.tokens[:, : tokens.shape[1]] = tokens[:, : self.room]
        self.states, self.initial = self._empty(own, start(len(tokens), self.room))
        self.given = states_of(self.states)
        self.first, self.last = FEWEST_PROMPT_TOKENS, self.room - 2
        while True:
            try:
                with at_least(self.room):
                    self._make(own, self.last)  # tables of positions grow now, not within a recording
                    self.program = self._program(own)
                break
            except NoProgram:
                self.last //= 2
                if self.last < 4 * self.first:
                    raise
        length, plain = (self.first + self.last) // 2, partial(self._make, own)
        self._hold_to(length, plain)
        ours, theirs = (min(seconds(read, length) for _ in range(TURNS)) for read in (self._run, plain))
        if ours > theirs:
            raise NoProgram(f"its kernels take {ours / theirs:.1f} times as long as PyTorch")

    def _empty(self, own: OwnStep, decoding: Decoding) -> tuple[Decoding, dict[str, Tensor]]:
        """A decoding with room in its caches that has read nothing, and the tensors of states that begin with numbers.
        Raises NoProgram for states that a step makes otherwise."""
        begun = copy.deepcopy(decoding.states)
        with torch.inference_mode():
            own.step(self.tokens[:, :1], decoding)
        make_room(decoding, self.room)
        initial: dict[str, Tensor] = {}
        for number, (states, before) in enumerate(zip(decoding.states, begun, strict=True)):
            for place, state in enumerate(states):
                if isinstance(state, CrossCache):
                    raise NoProgram("it reads another sequence")
                if isinstance(state, Cache | Kept):
                    continue
                known, now = dict(tensors_of(before[place])), dict(tensors_of(state))
                if known.keys() != now.keys():
                    raise NoProgram("a state of it is made by its first step")
                states[place] = before[place]
                path = f"state.{number}.{place}"
                initial |= {f"{path}.{name}" if name else path: tensor.clone() for name, tensor in known.items()}
        return decoding, initial

    def _at_start(self) -> None:
        """Let the states be those before anything is read."""
        for name, tensor in self.given.items():
            if name.startswith("state."):
                put(self.states.states, name.removeprefix("state.").split("."), tensor)
        for name, tensor in self.initial.items():
            self.given[name].copy_(tensor)
        self._note(0)

    def _note(self, length: int) -> None:
        self.states.lengths = torch.full_like(self.states.lengths, length)
        self.states._note_sizes([length] * self.states.batch)

    def _make(self, own: OwnStep, length: int) -> Any:
        self._at_start()
        with torch.inference_mode():
            return own.step(self.tokens[:, :length], self.states, last=True)

    def _program(self, own: OwnStep) -> StepProgram:
        lengths = (self.first, self.first + 1, (self.first + self.last) // 2, self.last)
        program = StepProgram([self._recorded(own, length) for length in lengths], self.first, self.last, self.packing)
        if program.last != self.last:
            raise NoProgram("what it reads does not lie where it should at every length")
        self._at_start()
        program.bind(self._all_given())
        return program

    def _all_given(self) -> dict[str, Tensor]:
        return {"input.tokens": self.tokens, "lengths": self.states.lengths, **self.given}

    def _recorded(self, own: OwnStep, length: int) -> Recording:
        self._at_start()
        recording, numbers = Recording(length, self._all_given()), dict(numbers_in(self.states.states))
        with torch.inference_mode(), grouped.by_choice(), Unread(), StepRecorder() as recorder:
            outputs = own.step(self.tokens[:, :length], self.states, last=True)
        left = {f"state.{path}": tensor for path, tensor in tensors_of(self.states.states)}
        if dict(numbers_in(self.states.states)) != numbers or left.keys() - self.given.keys():
            raise NoProgram("a state of it changes otherwise than by its numbers")
        if not isinstance(outputs, Tensor):
            raise NoProgram("it has several outputs")
        recording.operations, recording.outputs, recording.left = recorder.operations, {"logits": outputs}, left
        return recording

    def _hold_to(self, length: int, plain: Callable[[int], Any]) -> None:
        """Hold what the program reads of a prompt to what the model's own code does. Raises NoProgram."""
        own = [plain(length).clone(), *self._left(length)]
        made = [self._run(length).clone(), *self._left(length)]
        tolerance = TOLERANCE[self.packing.weights]
        for one, other in zip(own, made, strict=True):
            most = one.abs().max()
            near = (one - other).abs().max() <= tolerance * most  # not so, too, where one is no number
            if not bool(near & torch.isfinite(most)):
                raise NoProgram("its kernels come to other numbers than the model's own code")

    def _left(self, length: int) -> list[Tensor]:
        """What the states hold after a prompt of so many tokens."""
        floats = {name: tensor for name, tensor in states_of(self.states).items() if tensor.is_floating_point()}
        return [
            (tensor if name in self.initial else tensor[:, :, : min(length, tensor.shape[2])]).float().clone()
            for name, tensor in floats.items()
        ]

    def _run(self, length: int) -> Tensor:
        self._at_start()
        return self.program.run(length)["logits"]

    def reads(self, tokens: Tensor) -> bool:
        return self.first <= tokens.shape[1] <= self.last

    def read(self, tokens: Tensor, decoding: Decoding) -> Tensor:
        """Logits behind each row, (rows, 1, vocab); the decoding has read the tokens."""
        rows, length = tokens.shape
        self.tokens[:, :length] = tokens
        logits = self._run(length).clone()
        self._note(length)
        every = range(rows)
        decoding.put(every, self.states, every)
        return logits
