"""Speculative decoding: tokens are guessed, one pass computes the logits behind all, and wrong ones are dropped.

A row draws each token with its own next random number, as it does without guesses: its text is the same.

    prompt lookup  what followed the last tokens where they stood before is guessed to follow them again: right where a
                   text repeats itself or its prompt, as code, tables and answers from a passage do
    a draft model  a smaller one draws, by the random numbers with which the larger one will

Leviathan et al. 2023, 2211.17192; Saxena 2023, "Prompt lookup decoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from ..errors import InputError
from .sampling import choose
from .settings import SamplingSettings
from .steps import device_of, logits_behind, logits_of, pad_ids, step_model

LONGEST, SHORTEST = 3, 2  # of the last tokens that prompt lookup looks for
MAX_SINGLE_STEPS = 2  # tokens that a draft model reads one by one, as programs do, rather than at once


class GuessedRow(Protocol):
    """A text in the making: its tokens, of which caches hold those from `begin` on, and its random state."""

    number: int
    tokens: list[int]
    begin: int
    done: bool
    random: torch.Generator


class Guesser(Protocol):
    def guess(self, rows: Sequence[GuessedRow]) -> list[list[int]]:
        """As many guesses for each row, or none for all."""

    def select(self, places: Sequence[int]) -> None:
        """Keep these rows."""


class PromptLookup:
    """Guesses up to `most` tokens."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.followed: dict[int, Followed] = {}

    def guess(self, rows: Sequence[GuessedRow]) -> list[list[int]]:
        found = [
            [] if row.done else self.followed.setdefault(row.number, Followed()).after(row.tokens, self.most)
            for row in rows
        ]
        if not any(found):
            return [[] for _ in rows]
        # a row with fewer is filled up: what it guesses beyond is dropped
        return [tokens + row.tokens[-1:] * (self.most - len(tokens)) for row, tokens in zip(rows, found, strict=True)]

    def select(self, places: Sequence[int]) -> None:
        """Rows are known by their numbers."""


class Followed:
    """What followed each few tokens of one text, where they stood last."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, ...], int] = {}
        self.known = 0

    def after(self, tokens: Sequence[int], most: int) -> list[int]:
        """Up to `most` tokens that may come next; `tokens`: those so far, which begin as at the last call."""
        for place in range(self.known, len(tokens)):
            for size in range(SHORTEST, LONGEST + 1):
                if place >= size:
                    self.places[tuple(tokens[place - size : place])] = place
        self.known = len(tokens)
        for size in range(LONGEST, SHORTEST - 1, -1):
            found = self.places.get(tuple(tokens[-size:]))
            if found is not None:
                return list(tokens[found : found + most])
        return []


class DraftModel:
    """Guesses by a model of the same tokens. It reads what was written, and drops of its own guesses what was not."""

    def __init__(self, model: Any, settings: SamplingSettings) -> None:
        self.model, self.most = model, settings.speculate
        self.settings = settings.model_copy(update={"repetition_penalty": 1.0})
        self.decoding: Any = None
        self.begins: list[int] = []
        self.held: list[list[int]] = []  # the tokens of each row that the caches hold

    def guess(self, rows: Sequence[GuessedRow]) -> list[list[int]]:
        texts = [row.tokens[row.begin :] for row in rows]
        if not self._drop(rows, texts):
            return [[] for _ in rows]
        logits = self._read([text[len(held) :] for text, held in zip(texts, self.held, strict=True)])
        generators = [torch.Generator() for _ in rows]
        for generator, row in zip(generators, rows, strict=True):
            generator.set_state(row.random.get_state())
        guesses: list[list[int]] = [[] for _ in rows]
        for number in range(self.most):
            chosen = choose(logits, self.settings, generators, None)
            for guessed, token in zip(guesses, chosen.tolist(), strict=True):
                guessed.append(token)
            if number < self.most - 1:
                logits = logits_of(self.model, step_model(self.model, chosen[:, None], self.decoding))[:, -1]
        self.held = [text + row[:-1] for text, row in zip(texts, guesses, strict=True)]
        return guesses

    def select(self, places: Sequence[int]) -> None:
        if self.decoding is not None:
            self.decoding.select(torch.tensor(places))
            self.begins, self.held = [self.begins[place] for place in places], [self.held[place] for place in places]

    def _drop(self, rows: Sequence[GuessedRow], texts: Sequence[list[int]]) -> bool:
        """Forget what was not written; whether there is room for what is new and for guesses. Raises InputError."""
        begins, longest = [row.begin for row in rows], max(map(len, texts)) + self.most
        limit = self.model.context_limit
        if limit is not None and longest > limit:
            return False
        if self.decoding is None or begins != self.begins or longest > self.decoding.capacity:
            self.decoding = self.model.start(len(rows), limit or 2 * longest)
            self.begins, self.held = begins, [[] for _ in rows]
            if not self.decoding.rewindable:
                what = "a state of the draft model has no positions that could be dropped where a guess was wrong"
                raise InputError(f"{what}: take another draft model")
        elif longest > self.decoding.rewindable:
            return False
        kept = [min(agreeing(held, text), len(text) - 1) for held, text in zip(self.held, texts, strict=True)]
        self.decoding.rewind([len(held) - count for held, count in zip(self.held, kept, strict=True)])
        self.held = [held[:count] for held, count in zip(self.held, kept, strict=True)]
        return True

    def _read(self, unread: Sequence[list[int]]) -> torch.Tensor:
        """The logits behind these tokens: (batch, vocab)."""
        if len({*map(len, unread)}) == 1 and len(unread[0]) <= MAX_SINGLE_STEPS and any(self.held):
            tokens, _ = pad_ids(unread, device_of(self.model))
            steps = [step_model(self.model, token[:, None], self.decoding) for token in tokens.T]
            return logits_of(self.model, steps[-1])[:, -1]
        return logits_behind(self.model, unread, self.decoding)


def agreeing(one: Sequence[int], other: Sequence[int]) -> int:
    """How many of the first tokens of two texts agree."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
