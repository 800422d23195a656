"""A dialogue as turns of tokens, and the windows in which a context holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Turn(NamedTuple):
    """A message as tokens: its role's mark, its text, the end."""

    ids: np.ndarray
    mark: int  # tokens of the mark
    reply: bool

    @property
    def learned(self) -> np.ndarray:
        """(tokens,) bool: the text and the end of a reply."""
        return np.arange(len(self.ids)) >= (self.mark if self.reply else len(self.ids))


class Window(NamedTuple):
    """A part of a dialogue that a context holds: turns that count, after turns that were counted before."""

    history: list[Turn]
    turns: list[Turn]


class TooLong(NamedTuple):
    """What a context could not hold."""

    replies: int = 0  # left out
    others: int = 0  # other messages, shorten_turn


def shorten_turn(turn: Turn, room: int) -> Turn:
    """The mark of a turn and its latest tokens, at most `room` in all."""
    kept = turn.ids if len(turn.ids) <= room else np.append(turn.ids[: turn.mark], turn.ids[turn.mark - room :])
    return turn._replace(ids=kept)


def latest(turns: Sequence[Turn], room: int, whole: bool = False) -> list[Turn]:
    """The latest turns that `room` tokens hold; where it holds not even the last, what it holds of that one, unless
    turns are to be `whole`."""
    kept: list[Turn] = []
    for turn in reversed(turns):
        room -= len(turn.ids)
        if room < 0:
            left = room + len(turn.ids)
            return kept or ([shorten_turn(turn, left)] if left > turn.mark + 1 and not whole else [])
        kept.insert(0, turn)
    return kept


def windows_of(turns: Sequence[Turn], room: int) -> tuple[list[Window], TooLong]:
    """A dialogue in windows of at most `room` tokens, cut between turns: each reply counts in one of them. A window
    after the first begins with turns of the one before, as far as half of the room holds them."""
    fitting = [turn for turn in turns if not turn.reply or len(turn.ids) <= room]
    others = sum(not turn.reply and len(turn.ids) > room // 2 for turn in fitting)
    fitting = [turn if turn.reply else shorten_turn(turn, room // 2) for turn in fitting]
    windows = [Window([], [])]
    for place, turn in enumerate(fitting):
        window = windows[-1]
        if sum(len(each.ids) for part in window for each in part) + len(turn.ids) > room:
            history = latest(fitting[:place], min(room // 2, room - len(turn.ids)))
            windows.append(window := Window(history, []))
        window.turns.append(turn)
    return [window for window in windows if window.turns], TooLong(len(turns) - len(fitting), others)
