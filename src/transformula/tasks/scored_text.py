"""The validation text of a language model in windows, each token of which but the first is predicted once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..data.token_data import TokenData
from ..errors import InputError
from ..generation.steps import device_of
from ..model.transformer import evaluating
from .base import EVALUATED_TOKENS, IGNORED, Batch, Progress
from .losses import nats_of

EVALUATED_LOGITS = 2**25  # logits of a batch of an evaluation (128 MiB in float32)


class ScoredWindow(NamedTuple):
    """What one window of an evaluation scores: it begins at `start`, has `length` inputs, and counts its targets from
    number `first` on; those before were counted by the window before."""

    start: int
    length: int
    first: int


class TokenNats(NamedTuple):
    """Predicted tokens, (tokens,) each: nats, -log P; read, how many tokens of its window stand before it; and ids."""

    nats: np.ndarray
    read: np.ndarray
    ids: np.ndarray


@dataclass(frozen=True)
class ScoredText:
    """The validation side of some data, in windows.

    vocab    of the model; context: inputs in a window; stride: how far a window is moved on, 0 for `context`
    carry    what the model says of itself; above 0 the text is read in one row to its end
    rows     how many windows, or which, are looked at; None: all
    """

    data: TokenData
    vocab: int
    context: int
    stride: int = 0
    carry: int = 0
    rows: Sequence[int] | None = None

    @cached_property
    def spans(self) -> list[ScoredWindow]:
        rows = range(len(self.rows)) if self.rows is not None and self.carry else self.rows
        return spans(len(self.data.validation), self.context, self.stride, rows)

    def kept(self, rows: Sequence[int]) -> ScoredText:
        """Some of its windows alone, by their number among these."""
        return replace(self, rows=rows if self.rows is None else [self.rows[row] for row in rows])

    def at_context(self, context: int) -> ScoredText:
        """The same text in windows of another length."""
        return replace(self, context=context)

    @property
    def tokens(self) -> int:
        """How many are predicted."""
        return sum(window.length - window.first for window in self.spans)

    @cached_property
    def bytes(self) -> int:
        """UTF-8 bytes of the text of the tokens that are predicted."""
        validation, pieces = self.data.validation, self.data.tokenizer.pieces
        if self.rows is None:
            # The first token is given, not predicted: its bytes do not count. Before whole documents it has none.
            return int(validation.text_bytes - len(pieces[int(validation.ids[0])]))
        parts = [validation.ids[w.start + 1 + w.first : w.start + 1 + w.length] for w in self.spans]
        sizes = np.fromiter(map(len, pieces), np.int64)
        return sum(int(sizes[part].sum()) for part in parts)

    def per_token_and_byte(self, nats: float) -> tuple[float, float]:
        """The nats of all predicted tokens as nats per token and as bits per byte."""
        return nats / self.tokens, nats / math.log(2) / max(self.bytes, 1)

    def unreadable(self, model: nn.Module) -> str:
        """Why a model cannot be scored in windows as long as these, in a sentence; "" where it can."""
        limit, tokens = getattr(model, "context_limit", None), len(self.data.validation)
        if self.carry:
            return "it carries on from window to window, so that neither a window nor a place in it says what was read"
        if limit is not None and self.context > limit:
            return (
                f"the model has learned {limit:,} positions and knows none beyond; train it with context"
                f" {self.context:,}, or with positions that are computed (rotary, ALiBi, sinusoids), or none"
            )
        if tokens <= self.context:
            return f"the validation text has {tokens:,} tokens, so that no window is so long"
        if self.stride > self.context:
            return f"windows are moved on by {self.stride:,} tokens (stride), and those between would not be counted"
        return ""

    def reader(self, model: nn.Module) -> Callable[..., Any]:
        """What makes the logits of `batches`, one batch after the other."""
        view, carried = evaluating(model), None
        carry_on = segment_of(view, self.carry)
        if carry_on is None:
            return view

        def onward(tokens: Tensor) -> Any:
            nonlocal carried
            logits, carried = carry_on(tokens, carried)
            return logits

        return onward

    def batches(self, model: nn.Module, progress: Progress | None = None) -> Iterator[Batch]:
        """The windows, alike ones together; targets that the window before has counted are left out."""
        ids, done = self.data.validation.ids, 0
        most = 1 if self.carry else windows_at_once(self.vocab, self.context)
        opening = self.data.tokenizer.marks.opening if "document" in getattr(model, "inputs", ()) else None
        for (length, first), alike in groupby(self.spans, key=lambda window: (window.length, window.first)):
            starts = np.array([window.start for window in alike])[:, None]
            for part in (starts[at : at + most] for at in range(0, len(starts), most)):
                rows = torch.from_numpy(ids[part + np.arange(length + 1)].astype(np.int64))
                targets = rows[:, 1:].clone()
                targets[:, :first] = IGNORED
                yield Batch(read_by(rows[:, :-1], opening), targets)
                done += len(part) * (length - first)
                if progress is not None:
                    progress(done, self.tokens)

    def token_nats(self, model: nn.Module, progress: Progress | None = None) -> Iterator[TokenNats]:
        """Every token that is predicted, some at a time."""
        device, read = device_of(model), self.reader(model)
        for batch in self.batches(model, progress):
            nats, real = nats_of(read, batch.to(device)).cpu(), batch.targets != IGNORED
            places = torch.arange(1, real.shape[1] + 1).expand_as(real)
            yield TokenNats(*(each[real].numpy() for each in (nats.double(), places, batch.targets)))

    def token_counts(self) -> np.ndarray | None:
        """How often the training text has each token, (vocab,) int64; None where its tokens are not at hand."""
        known = not self.data.split.alone and len(self.data.training) > 0
        return self.data.training.counts(self.vocab) if known else None


def spans(tokens: int, context: int, stride: int = 0, rows: Sequence[int] | None = None) -> list[ScoredWindow]:
    """Windows that predict each of `tokens` tokens but the first exactly once, none from more than `context` before it.

    stride  how far a window is moved on; 0 is `context`: no overlap. With less, every token but the earliest has at
            least `context - stride` others before it.
    rows    which of them, by number; None: all
    """
    again, last = context - (stride or context), tokens - 1
    starts = range(0, max(1, last - again), stride or context)
    chosen = starts if rows is None else (starts[row] for row in rows)
    return [ScoredWindow(start, min(context, last - start), again if start else 0) for start in chosen]


def windows_at_once(vocab: int, context: int) -> int:
    """How many windows an evaluation looks at together."""
    return max(1, min(EVALUATED_TOKENS, EVALUATED_LOGITS // vocab) // context)


def documents_of(tokens: Tensor, opening: Sequence[int]) -> Tensor:
    """The number of each token's document in its row, from 0: (batch, length) int64. A document begins with the first
    of the tokens that stand before it, which predicts its first token and so sees none of the document before."""
    return (tokens == opening[0]).long().cumsum(1) if opening else torch.zeros_like(tokens)


def read_by(tokens: Tensor, opening: Sequence[int] | None) -> dict[str, Tensor]:
    """The inputs of a model, (batch, length) int64 each: tokens, and their documents unless `opening` is None."""
    return {"tokens": tokens} if opening is None else {"tokens": tokens, "document": documents_of(tokens, opening)}


def segment_of(model: nn.Module, carry: int) -> Callable[..., Any] | None:
    """The model's `segment`, None for one that carries nothing. Raises InputError for a model whose batches are not
    those of `carry`."""
    says = int(getattr(model, "carry", 0))
    if says != carry:
        raise InputError(
            f"the model says `carry: {says}`, and its batches do not go on: make the task with that number"
            if says
            else f"the batches go on for `carry: {carry}`, and the model says no such thing"
        )
    segment: Callable[..., Any] | None = getattr(model, "segment", None) if says else None
    return segment
