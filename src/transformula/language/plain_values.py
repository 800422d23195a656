"""Plain values of a model file, checked: flags, names, characters."""

from __future__ import annotations

import re

from .messages import FormulaError
from .source import Place, Source

FLAGS = {"true": True, "yes": True, "false": False, "no": False}
"""How a flag is written, in small letters."""

MOST_OF_A_NAME = 200
"""Characters of a model's name, which is printed in titles and may name a folder."""

HALF = re.compile("[\ud800-\udfff]")
"""Half of a pair of UTF-16: what a terminal hands over for bytes that are no text; no file can hold it."""


def checked_flag(text: str, key: str, place: Place | None) -> bool:
    """A flag as written. Raises FormulaError for what is neither true nor false."""
    if text.lower() not in FLAGS:
        raise FormulaError("key-value", place, name=key, detail=f"is {text[:40]!r}", remedy="write true or false")
    return FLAGS[text.lower()]


def checked_name(text: str, place: Place | None) -> str:
    """A model's name. Raises FormulaError for one that is too long."""
    if len(text) > MOST_OF_A_NAME:
        detail = f"has {len(text):,} characters"
        remedy = f"write at most {MOST_OF_A_NAME}; what is longer goes under `about`"
        raise FormulaError("key-value", place, name="name", detail=detail, remedy=remedy)
    return text


def check_characters(source: Source) -> None:
    """Raise FormulaError for a character that no file can hold."""
    found = HALF.search(source.text)
    if found:
        detail = f"holds {found.group()!r}, half a character"
        raise FormulaError("key-value", None, name=source.name, detail=detail, remedy="take it out or replace it")
