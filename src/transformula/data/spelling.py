"""How texts are spelled for a model, so that a word is the same tokens wherever it stands.

    split_names    def readAll(n)       ->  def read All( n)       Ahmad et al. 2020, for programs
    lower: first   Read all of HTTP.    ->   read all of HTTP.     a truecaser without a table (Lita et al. 2003)
    lower: all     Read all of HTTP.    ->   read all of http.

People type and read texts as ever: what is typed is spelled so for the model, and what it writes is spelled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from .records import Record
from .unicode_words import SIGNS, WORD

NAME = regex.compile(rf"(?<![{SIGNS}])(?!\d){WORD.pattern}")
SMALL = rf"(?![\d_A-Z])[{SIGNS}]"
PART = regex.compile(rf"(?:{SMALL})+|(?:[A-Z]\p{{M}}*+)+(?!{SMALL})|[A-Z](?:{SMALL})+|\d+")  # a word of a name


@dataclass(frozen=True)
class Spelling:
    """What is done to texts before they become tokens, and undone in what is written.

    split_names  names of programs in a source become their words
    lower        lowercasing: none, the first word, or all. A text that is lowercased begins with a blank, as inside a
                 sentence, and what is written begins with a capital
    """

    split_names: bool = False
    lower: Literal["none", "first", "all"] = "none"

    def __post_init__(self) -> None:
        if str(self.lower) == "nothing":  # as model folders of earlier versions say it
            object.__setattr__(self, "lower", "none")

    def source(self, text: str) -> str:
        """A source, as its tokenizer is given it."""
        return self.target(in_words(text) if self.split_names else text)

    def target(self, text: str) -> str:
        """A target, or its beginning, as its tokenizer is given it."""
        if self.lower == "none" or not text:
            return text
        if self.lower == "all":
            return " " + text.lower()
        first = NAME.match(text)  # "Read it" becomes " read it"; HTTP stays, as more than its first letter is not lower
        lower = first is not None and first[0][1:] == first[0][1:].lower()
        return " " + (text[0].lower() + text[1:] if lower else text)

    def written(self, text: str, prefix: str = "") -> str:
        """A target that a model wrote, as people read it; what it was told to begin with stays as it was typed."""
        if self.lower == "none":
            return text
        text = text.removeprefix(" ")
        if prefix and text[: len(prefix)].lower() == prefix.lower():
            return prefix + text[len(prefix) :]
        return text[:1].upper() + text[1:]

    def texts(self, records: Sequence[Record], side: str) -> list[str]:
        """The texts of one side, `source` or `target`, as its tokenizer is given them."""
        spelled = self.source if side == "source" else self.target
        return [spelled(str(record[side])) for record in records]


PLAIN = Spelling()  # texts as they are


def words_of(name: str) -> list[str]:
    """The words of a name: parse_HTTPHeader2 -> parse, HTTP, Header, 2. None of a name of underscores."""
    words: list[str] = PART.findall(name)
    return words


def in_words(text: str) -> str:
    """A text with each name as its words, a blank before each: `self.read_all(n)` -> `self. read all( n)`. Twice is as
    once."""

    def spelled(name: regex.Match[str]) -> str:
        apart = name.start() > 0 and not text[name.start() - 1].isspace()
        return " " * apart + " ".join(words_of(name[0]) or [name[0]])

    text_in_words: str = NAME.sub(spelled, text)
    return text_in_words
