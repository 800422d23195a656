"""A word from outside is tried when it is first used in decoding: a word whose steps are not its pass would write wrong
texts without a word."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..language.graph import Value
from ..words.word import At

ROWS, LENGTH = 2, 6
PAGE = "docs/how-to/add-a-word.md shows how to decode"
_passed: set[Hashable] = set()  # words, with their options, that were tried


def to_be_tried(value: Value) -> bool:
    """Whether a call is of a word from outside that keeps a state and needs no more than streams of one sequence."""
    call = value.called
    plain = all(argument.kind == "stream" and argument.sequence == value.sequence for argument in value.args)
    ours = call.word.module.startswith("transformula.words.")
    return plain and not (ours or call.word.reach != "past" or call.ports or call.word.ids)


def try_once(value: Value, module: Any) -> None:
    """Decode a few random positions by the module of a call, evaluating, and compare with its one pass; once for all
    calls of the same options and widths.

    Raises InputError where a step is not what one pass gives, with what differed and the remedy."""
    call = value.called
    key = (type(module), tuple(call.options.items()), tuple(stream.width for stream in value.args))
    if key in _passed:
        return
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))
    if like.is_meta:
        return
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(ROWS, LENGTH, stream.width, generator=generator) for stream in value.args]
    with torch.no_grad():
        Trial(call.word.name, module, [x.to(like.device, like.dtype) for x in drawn]).run()
    _passed.add(key)


class Trial:
    """Decoding of the first positions of two rows, in three ways that are all one pass over the whole."""

    def __init__(self, name: str, module: Any, streams: list[Tensor]) -> None:
        self.name, self.module, self.streams, self.whole = name, module, streams, module(*streams)
        self.lengths = [0] * ROWS

    def run(self) -> None:
        state = self.begin()
        remedy = "`step` goes on from `state` and leaves there what the next chunk needs, whatever the chunk's length"
        for length in (3, 1, 2):
            self.step(state, [length] * ROWS, "chunks of 3, 1 and 2 positions give", remedy)
        state = self.begin()
        remedy = "`at.new` says how many positions of the chunk are real in each row; padding must not change the state"
        for new in ([3, 1], [1, 2], [1, 1]):
            self.step(state, new, "a row beside a longer one, so that its chunk is padded, gives", remedy)
        state = self.begin()
        remedy = "tensors of `state` have the batch first, or the word has a `reorder` of its own"
        self.step(state, [2, 2], "a chunk gives", remedy)
        state = self.module.reorder(state, torch.tensor([1, 1]))
        self.streams = [x[[1, 1]] for x in self.streams]
        self.whole = self.whole[[1, 1]]
        self.step(state, [1, 1], "rows that were dropped and copied give", remedy)

    def begin(self) -> Any:
        like = self.streams[0]
        self.lengths = [0] * ROWS
        return self.module.start(ROWS, LENGTH, like.dtype, like.device)

    def step(self, state: Any, new: list[int], what: str, remedy: str) -> None:
        """Decode so many positions of each row. Raises InputError where they are not those of the whole pass."""
        device, longest = self.whole.device, max(new)
        places = torch.tensor(self.lengths, device=device)[:, None] + torch.arange(longest, device=device)
        rows = torch.arange(ROWS, device=device)[:, None]
        real = torch.arange(longest, device=device) < torch.tensor(new, device=device)[:, None]
        # padding holds anything
        chunk = [torch.where(real[..., None], x[rows, places.clamp(max=LENGTH - 1)], 3.0) for x in self.streams]
        agree = len(set(self.lengths)) == 1
        ragged = None if len(set(new)) == 1 else torch.tensor(new, device=device)
        at = At(torch.tensor(self.lengths, device=device), self.lengths[0] if agree else None, ragged)
        result = self.module.step(*chunk, state=state, at=at)
        expected = self.whole[rows, places.clamp(max=LENGTH - 1)]
        difference = float(torch.where(real[..., None], result - expected, 0).abs().max())
        if not difference <= torch.finfo(result.dtype).eps ** 0.5 * (1 + float(self.whole.abs().max())):
            error = f"the word {self.name!r}, step by step: {what} another result than one pass, by {difference:.2g}"
            raise InputError(f"{error}; {remedy}. {PAGE}")
        self.lengths = [length + added for length, added in zip(self.lengths, new, strict=True)]
