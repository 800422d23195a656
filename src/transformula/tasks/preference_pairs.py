"""Pairs of replies to one prompt as a model reads them: both after the same tokens of the prompt.

A prompt that is too long beside its replies keeps its system message and its latest messages, at least half of the
context; then what of a reply has no room is cut off, its end too. Both are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data.encoded import pad_rows
from ..data.records import Record
from ..data.splits import as_one_text
from .base import IGNORED, Batch
from .learned_parts import PartlyLearned
from .scores.measured import Measured, mean_of
from .turns import Turn, latest

CUT_PROMPT = "the first part of the prompt is longer than the context and not read"
CUT_REPLY = "a reply is longer than the context and cut"
LEFT_OUT = "left out, as the context ends before the replies differ"
NO_ROOM = "left out, as the context has no room for the last message before the reply"


class Pair(NamedTuple):
    """The two texts of a pair: the prompt and a reply each, of which the reply counts."""

    chosen: PartlyLearned
    rejected: PartlyLearned

    @property
    def positions(self) -> int:
        """Positions of the pair, padding included."""
        return 2 * max(self.chosen.positions, self.rejected.positions)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens that count of the chosen and of the rejected reply."""
        return int(self.chosen.learned.sum()), int(self.rejected.learned.sum())


@dataclass(frozen=True)
class PairBatch(Batch):
    """Pairs, the chosen reply of each before the rejected one.

    inputs   tokens (pairs, 2, length) int64, and what else stands beside: reference (pairs, 2)
    targets  (pairs, 2, length), or (pairs,) where no token is predicted
    lengths  (pairs, 2)
    """

    @property
    def by_rows(self) -> bool:
        return True

    @property
    def given(self) -> dict[str, Any]:
        """Each text as a row."""
        lengths = {name: each.flatten() for name, each in self.lengths.items()}
        given: dict[str, Any] = {"tokens": self.inputs["tokens"].flatten(0, 1)}
        return {**given, "lengths": lengths} if lengths else given


def of_both(rows: Sequence[np.ndarray], filled: int = 0) -> Tensor:
    """Rows of texts, the two of a pair after each other, as (pairs, 2, length)."""
    flat = pad_rows(rows, filled)
    return flat.view(len(rows) // 2, 2, -1)


def pair_batch(pairs: Sequence[Pair], **others: Tensor) -> PairBatch:
    """Pairs as a batch: all but the last token of each text, and as targets those that count."""
    texts = [text for pair in pairs for text in pair]
    tokens = of_both([text.ids[:-1] for text in texts])
    targets = of_both([np.where(text.learned, text.ids[1:], IGNORED) for text in texts], IGNORED)
    return PairBatch({"tokens": tokens, **others}, targets, lengths_of_texts([text.positions for text in texts]))


def lengths_of_texts(sizes: Sequence[int]) -> dict[str, Tensor]:
    """The lengths of texts, as `lengths` of a batch of pairs."""
    return {"tokens": torch.tensor(sizes).view(-1, 2)} if min(sizes) < max(sizes) else {}


class EncodedPairs(NamedTuple):
    """Pairs, the records that they are of, and how often what was done with those that are too long."""

    pairs: list[Pair]
    records: list[Record]
    done: Counter[str]

    def notes(self, name: str) -> list[str]:
        return [f"{name}: of {count:,} pairs {what}" for what, count in self.done.items()]


class Fitted(NamedTuple):
    """Replies to one prompt as texts within a context, and whether the prompt or a reply was cut for that."""

    texts: list[PartlyLearned]
    prompt_cut: bool
    reply_cut: bool


def pairs_by_turns(records: Sequence[Record], chat: Any) -> Iterable[Fitted]:
    """Pairs as the model of a `Chat` reads them."""
    sides: list[list[list[Turn]]] = [chat.turns([record[name] for record in records]) for name in ("prompt", *SIDES)]
    for record, prompt, *replies in zip(records, *sides, strict=True):
        room = max(chat.context - max(map(size_of, replies)), chat.context // 2)
        before = prompt_within(prompt, system_messages(record["prompt"]), room)
        room = chat.context - size_of(before)
        texts = [text_after(chat.end, before, turns, room) for turns in replies]
        yield Fitted(texts, size_of(before) < size_of(prompt), any(size_of(turns) > room for turns in replies))


def encoded_pairs(records: Sequence[Record], found: Iterable[Fitted | None]) -> EncodedPairs:
    """Records with their texts as pairs, without those whose replies do not differ within the context."""
    done: Counter[str] = Counter()
    pairs, kept = [], []
    for record, made in zip(records, found, strict=True):
        if made is None:
            done[NO_ROOM] += 1
            continue
        pair = Pair(*made.texts)
        done[CUT_PROMPT] += made.prompt_cut
        if not all(pair.tokens) or np.array_equal(pair.chosen.ids, pair.rejected.ids):
            done[LEFT_OUT] += 1
            continue
        done[CUT_REPLY] += made.reply_cut
        pairs.append(pair)
        kept.append(record)
    return EncodedPairs(pairs, kept, +done)


SIDES = ("chosen", "rejected")


def size_of(turns: Sequence[Turn]) -> int:
    """Tokens of turns."""
    return sum(len(turn.ids) for turn in turns)


def system_messages(messages: Any) -> int:
    """How many messages of the system a dialogue begins with."""
    return sum(1 for _ in takewhile(lambda one: one["role"] == "system", messages))


def prompt_within(turns: Sequence[Turn], system: int, room: int) -> list[Turn]:
    """What of a prompt is read where it has so much room: its first turns, of the `system`, if they take no more than
    half, and the latest."""
    if size_of(turns) <= room:
        return list(turns)
    before = list(turns[:system]) if 2 * size_of(turns[:system]) <= room else []
    return [*before, *latest(turns[len(before) :], room - size_of(before))]


def text_after(end: int, before: Sequence[Turn], turns: Sequence[Turn], room: int) -> PartlyLearned:
    """A reply after its prompt, of at most `room` tokens, as a text of which the reply counts."""
    ids = np.concatenate([[end], *(turn.ids for turn in before), np.concatenate([t.ids for t in turns])[:room]])
    learned = np.concatenate([np.zeros(size_of(before), dtype=bool), np.concatenate([t.learned for t in turns])[:room]])
    return PartlyLearned(ids.astype(np.int32), learned)


def pair_texts(records: Sequence[Record], settings: Any) -> list[str]:
    """Prompts and replies as texts, from which a tokenizer learns."""
    sides: Any = [record[name] for record in records for name in ("prompt", *SIDES)]
    mark = settings.template.get
    return ["".join(mark(one["role"], "") + one["content"] + "\n" for one in messages) for messages in sides]


def in_pair_order(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(pairs,) from 0 to 1: 1 where the first number is the higher one, a half where both are equal."""
    order: np.ndarray = np.where(first == second, 0.5, first > second)
    return order


def pair_accuracy(chosen: np.ndarray, rejected: np.ndarray) -> Measured:
    """100 times the share of pairs whose chosen reply has the higher number; equal ones count half."""
    return mean_of("accuracy", "pairs whose chosen reply scores higher; equal ones count half",
                   100 * in_pair_order(chosen, rejected))  # fmt: skip


def longer_is_chosen(pairs: Sequence[Pair]) -> float:
    """The accuracy of taking the longer reply, in tokens."""
    tokens = np.array([pair.tokens for pair in pairs])
    return pair_accuracy(tokens[:, 0], tokens[:, 1]).score


def short_pair(record: Any) -> str:
    """A pair on one line."""
    return "  ".join(f"{name}: {' '.join(as_one_text(record[name]).split())[:60]}" for name in ("prompt", *SIDES))
