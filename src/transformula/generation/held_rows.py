"""Which rows of a batch are the hypotheses of which sentences, as these end one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ..engine.kinds import most_rows
from .sentences import Sentence

MAX_DONE = 0.125  # of the sentences that go on: so many that are done stay in large batches, for moving rows costs, too


class HeldRows:
    """Which rows of a decoding are of which sentences.

    keep   some rows of sentences that are done stay: in small batches until as many sentences are live as one of a few
           sizes, in large ones until they are many
    slots  which hypothesis of its sentence each row is
    """

    def __init__(self, batch: list[Sentence], keep: bool) -> None:
        self.sentences, self.keep = batch, keep
        self.slots = [[0] for _ in batch]

    def live(self) -> tuple[list[tuple[Sentence, list[int]]], Tensor | None]:
        """The sentences that go on, with the slots of their rows, and which rows these are; None: all."""
        pairs = list(zip(self.sentences, self.slots, strict=True))
        live = [(sentence, slots) for sentence, slots in pairs if sentence.beam]
        if len(live) == len(pairs):
            return live, None
        goes_on = [bool(sentence.beam) for sentence, slots in pairs for _ in slots]
        return live, torch.tensor(goes_on).nonzero()[:, 0]

    def go_on(self, parents: Mapping[Sentence, Sequence[int]], full: bool) -> tuple[list[int], list[int]]:
        """Let every sentence that goes on have rows of its `parents`, slots of its own: of all rows those that stand in
        the batch from now on, and the token that each reads. A parent's row stays where it is for one of its children,
        so that few rows are copied. full: whether the longest row has no room for more, which may be one that is done.
        """
        firsts = [0, *accumulate(map(len, self.slots))]
        rows: list[int] = []
        tokens: list[int] = []
        every: list[list[int]] = []
        stay = self._staying(full)
        for number in stay:
            sentence, slots, first = self.sentences[number], self.slots[number], firsts[number]
            own, now = list(range(len(slots))), slots
            if sentence.beam:
                row_of = {slot: row for row, slot in enumerate(slots)}
                own, now = placed([row_of[parent] for parent in parents[sentence]])
            tokens += [sentence.beam[slot][1][1] if sentence.beam else 0 for slot in now]
            rows += [first + row for row in own]
            every.append(now)
        self.sentences, self.slots = [self.sentences[number] for number in stay], every
        return rows, tokens

    def _staying(self, full: bool) -> list[int]:
        """Which sentences stay in the batch. The last ones take the places of those that leave."""
        done = [number for number, sentence in enumerate(self.sentences) if not sentence.beam]
        live = len(self.sentences) - len(done)
        most, left = int(MAX_DONE * live), 0  # all leave once there are more
        if sum(len(sentence.beam) for sentence in self.sentences) <= most_rows():
            most = left = size_for(live) - live
        if full or not self.keep:
            most = left = 0
        leave = {*done[left:]} if len(done) > most else set()
        kept = [number for number in range(len(self.sentences)) if number not in leave]
        return [number if number not in leave else kept.pop() for number in range(len(kept))]


def placed(wanted: Sequence[int]) -> tuple[list[int], list[int]]:
    """The rows `wanted` in an order in which as many as can stay where they are, and which of them stands in each
    place."""
    places: list[int | None] = [None] * len(wanted)
    others = []
    for slot, row in enumerate(wanted):
        if row < len(places) and places[row] is None:
            places[row] = slot
        else:
            others.append(slot)
    left = iter(others)
    now = [next(left) if slot is None else slot for slot in places]
    return [wanted[slot] for slot in now], now


def size_for(count: int) -> int:
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, ... that is at least `count`."""
    power = 1 << max(count - 1, 0).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 and power > 2 else power
