"""How texts are spelled for a model, so that a word is the same tokens wherever it stands.

    split_names   def readAll(n)       ->  def read All( n)      Ahmad et al. 2020, for programs
    lower_first   Read all lines.      ->   read all lines.      a truecaser without a table (Lita et al. 2003)

People type and read texts as ever: what is typed is spelled so for the model, and what it writes is spelled back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .record import Record

NAME = re.compile(r"\b[^\W\d]\w*")

PART = re.compile(r"[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|[A-Z][^\W\d_A-Z]+|\d+")
"""A word of a name: of parseHTTPHeader2 they are parse, HTTP, Header and 2."""


@dataclass(frozen=True)
class Spelling:
    """What is done to texts before they become tokens, and undone in what is written.

    split_names  names of programs in a source become their words
    lower_first  a text begins as if it stood inside a sentence
    """

    split_names: bool = False
    lower_first: bool = False

    def source(self, text: str) -> str:
        """A source, as its tokenizer is given it."""
        text = in_words(text) if self.split_names else text
        return lowered(text) if self.lower_first else text

    def target(self, text: str) -> str:
        """A target, or its beginning, as its tokenizer is given it."""
        return lowered(text) if self.lower_first else text

    def written(self, text: str) -> str:
        """A target that a model wrote, as people read it."""
        return raised(text) if self.lower_first else text

    def texts(self, records: Sequence[Record], side: str) -> list[str]:
        """The texts of one side, `source` or `target`, as its tokenizer is given them."""
        spelled = self.source if side == "source" else self.target
        return [spelled(str(record[side])) for record in records]


PLAIN = Spelling()
"""Texts as they are."""


def words_of(name: str) -> list[str]:
    """The words of a name: read_allLines -> read, all, Lines. None of a name of underscores."""
    return PART.findall(name)


def in_words(text: str) -> str:
    """A text with each name as its words, a blank before each: `self.read_all(n)` -> `self. read all( n)`.

    Twice is as once.
    """

    def spelled(name: re.Match[str]) -> str:
        apart = name.start() > 0 and not text[name.start() - 1].isspace()
        return " " * apart + " ".join(words_of(name[0]) or [name[0]])

    return NAME.sub(spelled, text)


def lowered(text: str) -> str:
    """A text with a blank before it, its first word in lower case if only its first letter is not: "Read it" -> " read
    it", "HTTP" -> " HTTP". Of no text comes none."""
    first = NAME.match(text)
    if first is not None and first[0][1:] == first[0][1:].lower():
        text = text[0].lower() + text[1:]
    return text and f" {text}"


def raised(text: str) -> str:
    """What `lowered` did, undone: without the blank, and with a capital."""
    text = text.removeprefix(" ")
    return text[:1].upper() + text[1:]
