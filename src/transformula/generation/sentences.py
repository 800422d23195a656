"""The sentences of a search: what was written of each so far, and what has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import InputError
from .settings import SearchSettings


class Hypothesis(NamedTuple):
    """What a search wrote for a sentence."""

    tokens: list[int]  # without the prompt and without the end; a forced prefix is part of it
    log_probability: float  # the sum over the tokens, and over the end where there is one
    score: float  # that sum divided by the length penalty
    ended: bool  # whether it came to its end; else it was cut at the greatest length


@dataclass(eq=False)
class Sentence:
    """One text in the making. A text is a pair (text before, token), or None where nothing is written yet."""

    number: int
    prompt: list[int]
    prefix: list[int]
    inputs: dict[str, Any]
    size: int
    most: int
    beam: list[tuple[float, Any]] = field(default_factory=list)
    ended: list[Hypothesis] = field(default_factory=list)
    length: int = 0

    def go_on(
        self, found: Sequence[tuple[float, int, int]], ends: Sequence[int], settings: SearchSettings
    ) -> list[int]:
        """Take the best continuations (sum, slot, token); return the slots, of the beam before, that live on."""
        self.length += 1
        width, cut = settings.beam, self.length == self.most and not ends
        parents: list[int] = []
        beam: list[tuple[float, Any]] = []
        count = len(self.ended)
        for rank, (total, slot, token) in enumerate(found):
            if len(beam) == width or not total > float("-inf"):  # what ends is looked at among the best alone
                break
            text = self.beam[slot][1]
            if token not in ends and not cut:
                parents.append(slot)
                beam.append((total, (text, token)))
            elif rank < width:
                self._end(text if token in ends else (text, token), total, token in ends, settings)
        if not beam and not self.ended:
            what = f"sentence {self.number}: no token is left to write after {self.length - 1}: all are ruled out by"
            settled = f"block_ngrams ({settings.block_ngrams}) and min_length ({settings.min_length})"
            raise InputError(f"{what} {settled}")
        if len(self.ended) > count:
            self.ended = self.best(width)
        if beam and self._done(beam[0][0], self.most + (len(ends) > 0), settings):
            parents, beam = [], []
        self.beam = beam
        return parents

    def _done(self, total: float, longest: int, settings: SearchSettings) -> bool:
        """Whether the search may stop, where the best that goes on has the sum `total` and may reach the length
        `longest`, its end included. Of equals the one that ended first is the better."""
        if len(self.ended) < settings.n_best:
            return False
        worst = self.ended[settings.n_best - 1].score
        full = len(self.ended) == settings.beam
        if full and (settings.beam == 1 or settings.early_stopping):
            return True
        return total / settings.divisor(self.length + 1 if full else longest) <= worst

    def _end(self, text: Any, total: float, ended: bool, settings: SearchSettings) -> None:
        tokens = []
        while text is not None:
            text, token = text
            tokens.append(token)
        self.ended.append(Hypothesis(tokens[::-1], total, total / settings.divisor(self.length), ended))

    def best(self, count: int) -> list[Hypothesis]:
        return sorted(self.ended, key=lambda h: -h.score)[:count]
