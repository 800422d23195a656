"""Documents kept as UTF-8: a byte of memory for a byte of text, given out as strings, long ones in pieces. A very large
one lies in a file, and takes next to no memory."""

from __future__ import annotations

import codecs
import hashlib
import itertools
import math
import mmap
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar, overload

import numpy as np

from .base import as_utf8

PIECE = 1 << 20  # bytes of a document that are given out as one string, at most
AROUND = 1 << 16  # bytes that come into memory with the one that is read
RELEASED = 1 << 24  # bytes of a file that were read, from which on their memory is given back
Content = bytes | memoryview  # the UTF-8 of a document
T = TypeVar("T", str, Content)


class MappedText(mmap.mmap):
    """A file, mapped into memory. A `memoryview` of it, or of a part, is a document whose pages `pieces_of` and
    `blocks_of` give back once they are read: they come again from the file when they are needed."""

    unreleased = 0  # bytes

    def release(self, count: int) -> None:
        """Say that so many bytes were read in one piece."""
        self.unreleased += max(count, AROUND)
        if self.unreleased >= RELEASED and hasattr(self, "madvise"):
            self.madvise(mmap.MADV_DONTNEED)
            self.unreleased = 0


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
        return text_of(self.contents[number])

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
        return [digest_of([content]).digest() for content in self.contents]

    def pieces(self) -> Iterator[str]:
        """All documents one after the other, long ones in pieces."""
        return itertools.chain.from_iterable(map(pieces_of, self.contents))


def text_of(content: Content) -> str:
    """A document as one string."""
    text = str(content, "utf-8")
    was_read(content, len(content))
    return text


def pieces_of(content: Content) -> Iterator[str]:
    """A document as strings of at most `PIECE` bytes, cut between two characters."""
    start = 0
    while start < len(content):
        end = start + PIECE
        piece, read = codecs.utf_8_decode(content[start:end], "strict", end >= len(content))
        was_read(content, read)
        yield piece
        start += read


def blocks_of(content: Content) -> Iterable[Content]:
    """A document in blocks of at most `PIECE` bytes, cut anywhere."""
    return (content,) if isinstance(content, bytes) and len(content) <= PIECE else _blocks_of(content)


def _blocks_of(content: Content) -> Iterator[Content]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]
        was_read(content, min(PIECE, len(content) - start))


def was_read(content: Content, count: int) -> None:
    """Give memory back, where a document lies in a file and enough of it was read."""
    if isinstance(content, memoryview) and isinstance(content.obj, MappedText):
        content.obj.release(count)


def digest_of(contents: Iterable[Content]) -> hashlib._Hash:
    """SHA-256 of documents, one after the other."""
    digest = hashlib.sha256()
    for block in itertools.chain.from_iterable(map(blocks_of, contents)):
        digest.update(block)
    return digest


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
