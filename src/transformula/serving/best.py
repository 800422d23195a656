"""The best of the texts that are drawn for a prompt: by a reward model, or by the mean log probability of a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..data.conversations import REPLIES
from ..data.messages import Message
from .texts import Ending, Text, TextPiece


class WrittenText(NamedTuple):
    """A text as it was written: all of it, and how it ended."""

    piece: TextPiece
    ending: Ending


class Chosen(NamedTuple):
    """The place of a text among all that were written, and its reward, where a model gave it one."""

    place: int
    reward: float | None = None


@dataclass(frozen=True)
class Best:
    """How many texts are drawn for each prompt, and how many of them are sent: the best, best first.

    dialogues  what each prompt is as messages, to which the texts are replies
    """

    drawn: int
    sent: int
    dialogues: Sequence[Sequence[Message]]

    def replies(self, written: Sequence[WrittenText]) -> list[list[Message]]:
        """The dialogues that a reward model reads, each with a text as its reply."""
        return [
            [*self.dialogues[place // self.drawn], {"role": REPLIES, "content": one.piece.text}]
            for place, one in enumerate(written)
        ]

    def chosen(self, written: Sequence[WrittenText], rewards: Sequence[float] | None) -> list[Chosen]:
        """Those that are sent of each prompt; of equal ones the first."""
        scores = [mean_log_probability(one.piece) for one in written] if rewards is None else rewards
        found = []
        for first in range(0, len(written), self.drawn):
            places = sorted(range(first, first + self.drawn), key=lambda place: -scores[place])
            found += [Chosen(place, None if rewards is None else rewards[place]) for place in places[: self.sent]]
        return found


def mean_log_probability(piece: TextPiece) -> float:
    """The mean over the tokens of a text, its end included, by the model alone; minus infinity where there are none."""
    values = [token.log_probability for token in piece.tokens]
    return sum(values) / len(values) if values else -float("inf")


async def all_of(text: Text) -> WrittenText:
    """A text that is not streamed, when it has ended. Raises the error that ended it."""
    piece = TextPiece("", [])
    async for event in text.events():
        if isinstance(event, TextPiece):
            piece = event
            continue
        if event.error is not None:
            raise event.error
        return WrittenText(piece, event)
    raise AssertionError("a text has an end")
