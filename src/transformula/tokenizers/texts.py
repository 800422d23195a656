"""Documents kept as UTF-8: a byte of memory for a byte of text, given out as strings, long ones in pieces."""

from __future__ import annotations

import codecs
import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar, overload

import numpy as np

from .base import as_utf8

PIECE = 1 << 20  # bytes of a document that are given out as one string, at most
Content = bytes | memoryview  # the UTF-8 of a document
T = TypeVar("T", str, Content)


class Texts(Sequence[str]):
    """A sequence of documents, equal to another, or to a list, of the same. One that is asked for by its number becomes
    a string each time. `contents` are the UTF-8 of each, known to be valid."""

    def __init__(self, contents: Sequence[Content]) -> None:
        self.contents = contents

    @classmethod
    def of(cls, documents: Iterable[str | Content]) -> Texts:
        """Documents that are strings or UTF-8. Raises InputError for half a character."""
        if isinstance(documents, Texts):
            return documents
        return cls([as_utf8(each) if isinstance(each, str) else each for each in documents])

    def __len__(self) -> int:
        return len(self.contents)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> Texts: ...
    def __getitem__(self, number: int | slice) -> str | Texts:
        if isinstance(number, slice):
            return Texts(self.contents[number])
        return str(self.contents[number], "utf-8")

    def __add__(self, others: Texts) -> Texts:
        return Texts([*self.contents, *others.contents])

    def __eq__(self, others: object) -> bool:
        if not isinstance(others, Sequence) or isinstance(others, str):
            return NotImplemented
        return len(self) == len(others) and all(one == other for one, other in zip(self, others, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    @property
    def size(self) -> int:
        """UTF-8 bytes of all documents."""
        return sum(map(len, self.contents))

    @cached_property
    def characters(self) -> int:
        """Characters of all documents."""
        return sum(map(len, self.pieces()))

    @cached_property
    def digests(self) -> list[bytes]:
        """A hash of each document, 32 bytes."""
        return [hashlib.sha256(content).digest() for content in self.contents]

    def pieces(self) -> Iterator[str]:
        """All documents one after the other, long ones in pieces."""
        return itertools.chain.from_iterable(map(pieces_of, self.contents))


def pieces_of(content: Content) -> Iterator[str]:
    """A document as strings of at most `PIECE` bytes, cut between two characters."""
    start = 0
    while start < len(content):
        end = start + PIECE
        piece, read = codecs.utf_8_decode(content[start:end], "strict", end >= len(content))
        yield piece
        start += read


def groups(texts: Iterable[T], size: int, most: float = math.inf) -> Iterator[list[T]]:
    """Texts of together `size`, or little more; one of more than `most` is a group of its own."""
    group: list[T] = []
    filled = 0
    for text in texts:
        if group and (filled >= size or len(text) > most or len(group[0]) > most):
            yield group
            group, filled = [], 0
        group.append(text)
        filled += len(text)
    if group:
        yield group


def place_of(content: Content, character: int) -> int:
    """The byte with which a character of a document begins, counted from 0."""
    start = 0
    for piece in pieces_of(content):
        start += len(piece[:character].encode("utf-8"))
        if character < len(piece):
            break
        character -= len(piece)
    return start


def distinct_characters(pieces: Iterable[str]) -> list[str]:
    """The characters that occur, in the order of their code points. Raises InputError for half a character."""
    occurs = np.zeros(0x110000, dtype=bool)
    for piece in pieces:
        occurs[np.frombuffer(piece.encode("utf-32-le", "surrogatepass"), dtype="<u4")] = True
    characters = [chr(code) for code in np.flatnonzero(occurs)]
    as_utf8("".join(characters))
    return characters
