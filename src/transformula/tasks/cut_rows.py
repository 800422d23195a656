"""Texts that are longer than a model reads: the rest of them is left out, and it is said of how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from torch import Tensor

from ..errors import setting
from .predictor import Answer

A = TypeVar("A", bound=Answer)


class CutRow(dict[str, Tensor]):
    """What a model reads of texts that are longer than it reads."""


def is_cut(rows: Sequence[object]) -> list[bool]:
    """Whether each row is a part of its texts."""
    return [isinstance(row, CutRow) for row in rows]


def noted(answers: Sequence[Sequence[A]], cut: Sequence[bool], most: int) -> list[Sequence[A]]:
    """The answers to each input, with a note where it was `cut`."""
    note = f"longer than the {most:,} tokens that the model reads; the rest was not read"

    def cut_one(one: A) -> A:
        return one if note in one.note else replace(one, note=f"{one.note}; {note}" if one.note else note)

    return [list(map(cut_one, best)) if short else best for best, short in zip(answers, cut, strict=True)]


def notes_of(answers: Sequence[Answer], what: str) -> list[str]:
    """The notes of answers, each with how many of them have it; `what` the inputs are: "texts"."""
    counts = Counter(answer.note for answer in answers if answer.note)
    return [f"{count:,} of {len(answers):,} {what}: {note}" for note, count in counts.items()]


def notes_on(rows: Sequence[object], name: str, most: int, limit: int) -> list[str]:
    """What a person is told of rows of training, or of validation, of which no more than `most` tokens are read; the
    setting `max_tokens` is `limit`."""
    if not (cut := sum(is_cut(rows))):
        return []
    remedy = f"raise {setting('max_tokens' if most == limit else 'context', 'N')}"
    return [f"{cut:,} of {len(rows):,} {name} rows are longer than {most:,} tokens, and the rest is not read: {remedy}"]
