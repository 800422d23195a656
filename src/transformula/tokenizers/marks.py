"""The special tokens that stand around texts: between documents, before a text that is gone on with, in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np


class RowMarks(NamedTuple):
    """What stands around texts that are read as one sequence.

    ids    before each text, and after the last: (tokens, 2) int64, an id and which text it is counted to
    types  which text the tokens of each are counted to
    """

    ids: Sequence[np.ndarray]
    types: Sequence[int]

    @property
    def size(self) -> int:
        """How many tokens they are."""
        return sum(map(len, self.ids))

    def around(self, parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of texts as one sequence with these marks, (tokens,) int64, and which text each is counted to."""
        ids, types = [], []
        for before, part, kind in zip(self.ids, parts, self.types, strict=False):
            ids += [before[:, 0], part]
            types += [before[:, 1], np.full(len(part), kind)]
        last = self.ids[-1]
        return np.concatenate([*ids, last[:, 0]]), np.concatenate([*types, last[:, 1]])


@dataclass(frozen=True)
class Marks:
    """The marks of a tokenizer.

    opening  the ids before the first of several documents, and of a text that is begun from nothing
    between  the ids after each document
    closing  the ids after a document that is read alone
    prompt   the ids before a text that is gone on with
    one      around a text in a row
    two      around two
    source   the ids before and after a source, from which a target is written
    target   the ids that a target begins with, which are not written
    """

    opening: tuple[int, ...]
    between: tuple[int, ...]
    closing: tuple[int, ...]
    prompt: tuple[int, ...]
    one: RowMarks
    two: RowMarks
    source: tuple[tuple[int, ...], tuple[int, ...]]
    target: tuple[int, ...]

    @classmethod
    def of_end(cls, end: int | None) -> Self:
        """Marks of a tokenizer that has an end of a document and no more: it stands before and between documents, and
        before each text of a row."""
        mark = () if end is None else (end,)
        texts = [np.array([[i, number] for i in mark], np.int64).reshape(-1, 2) for number in (0, 1)]
        none = np.zeros((0, 2), np.int64)
        one, two = RowMarks([texts[0], none], [0]), RowMarks([*texts, none], [0, 1])
        return cls(mark, mark, mark, (), one, two, ((), mark), mark)

    @classmethod
    def of_template(
        cls, encode: Callable[..., Any], knows: Callable[[str], Any], end: int | None, target: Sequence[int]
    ) -> Self:
        """Marks of a tokenizer of the library that adds special tokens by a template of its own.

        encode  (text) or (text, text) -> the library's encoding, with special tokens
        knows   text -> its ids
        end     the end of a document, where the template adds none
        target  what a target begins with; nothing: the end of a document
        """
        text = next((sign for sign in ("a", "the", "0", "\n") if len(knows(sign))), None)
        if text is None:
            return cls.of_end(end)
        one, two = added_to(encode(text), 1), added_to(encode(text, text), 2)
        before, after = (tuple(mark[:, 0].tolist()) for mark in one.ids)
        closing = after or (() if end is None else (end,))
        target = tuple(target) or (() if end is None else (end,))
        return cls(before or closing, closing + before, closing, before, one, two, (before, closing), target)

    def row(self, count: int) -> RowMarks:
        """Around so many texts; more than two are joined as two are."""
        if count == 1:
            return self.one
        (first, between, last), types = self.two
        return RowMarks([first, *[between] * (count - 1), last], [types[0], *(types[1] + n for n in range(count - 1))])


def added_to(encoding: Any, count: int) -> RowMarks:
    """What a template added to so many texts."""
    marks, types = [np.zeros((0, 2), np.int64)], list[int]()
    for i, kind, text in zip(encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True):
        if text is None:
            marks[-1] = np.append(marks[-1], [[i, kind]], axis=0)
        elif text == len(types):
            types.append(kind)
            marks.append(marks[0][:0])
    return RowMarks(marks, types)
