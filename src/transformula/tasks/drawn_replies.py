"""Replies that a model draws to prompts, and what is measured on them: how long they are, whether they end, how far the
model has drifted from a frozen reference, and how often a judge prefers its replies over those of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.judges import judges
from ..data.messages import message_text
from ..data.records import Record
from ..generation.settings import ReplySettings
from .losses import per_token
from .preference_pairs import in_pair_order
from .reference import Reference, divergences
from .replies import REPLIES_AT_ONCE, Replying, ReplyWritten, replies_after
from .scores.measured import Measured, mean_of


class Drawing:
    """Draws replies by a chat at temperature 1. Those of the reference are kept, as they do not change."""

    def __init__(self, chat: Replying) -> None:
        self.chat = chat
        self._theirs: dict[tuple[str, ...], list[ReplyWritten]] = {}

    def read(self, records: Sequence[Record]) -> list[Record]:
        """The records whose prompts the context holds with a reply: a chat template cuts no message."""
        holds = getattr(self.chat, "holds", None)
        return [record for record in records if holds is None or holds(record["prompt"])]

    def draw(self, model: Any, records: Sequence[Record], seed: int = 1) -> list[ReplyWritten]:
        """A reply to the prompt of each record; of models with equal weights the same."""
        asked: list[Any] = [record["prompt"] for record in records]
        written = []
        for first in range(0, len(asked), REPLIES_AT_ONCE):
            settings = ReplySettings(temperature=1.0, seed=seed + first)
            written += replies_after(self.chat, model, asked[first : first + REPLIES_AT_ONCE], settings)
        return written

    def scores(
        self, model: Any, records: Sequence[Record], reference: Reference | None, judge: str | None
    ) -> list[Measured]:
        """length, stops; and beside a reference drift, reference length and, with a judge, win rate."""
        ours = self.draw(model, records)
        found = [
            mean_of("length", "tokens of a drawn reply", [len(each.written.ids) for each in ours], higher=False),
            mean_of("stops", "drawn replies that come to their end", [100.0 * each.written.ended for each in ours]),
        ]
        if reference is None:
            return found
        frozen, places = reference.load(), tuple(record.place for record in records)
        if places not in self._theirs:
            self._theirs = {places: self.draw(frozen, records)}
        theirs = self._theirs[places]
        lengths = [len(each.written.ids) for each in theirs]
        found += [
            replace(
                per_token(divergences(model, frozen, [each.text for each in ours]), "drift"),
                signature="KL from the reference, nats per token of the drawn replies",
            ),
            mean_of("reference length", "tokens of a reply of the reference", lengths, higher=False),
        ]
        if judge is None:
            return found
        prefers = in_pair_order(*(np.array(judged(judge, each, records)) for each in (ours, theirs)))
        return [*found, mean_of("win rate", f"by {judge}, over the reference; equal scores count half", 100 * prefers)]


def judged(judge: str, replies: Sequence[ReplyWritten], records: Sequence[Record]) -> list[float]:
    """What a judge says of replies to prompts."""
    score = judges.get(judge)
    asked: list[Any] = [record["prompt"] for record in records]
    return [float(score(message_text(p[-1]), each.written.text)) for p, each in zip(asked, replies, strict=True)]
