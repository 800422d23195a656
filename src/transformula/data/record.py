"""A record: a row's fields by name, and where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from ..errors import DataError, setting
from .lines import shown

Value = str | float | list[str] | Tensor
"""What a field holds: a text, a number, a list of texts or of tokens, or a picture (channels, height, width) uint8."""


class Lazy:
    """A value that is made when it is asked for, e.g. a picture in a file."""

    def load(self) -> Tensor:
        """The picture. Raises DataError."""
        raise NotImplementedError


class Record(Mapping[str, Value]):
    """Fields by name. A picture in a file is read each time it is asked for: a list of records holds only its name.

    place  where it stands: "train.de:12"
    group  records of one group, if it has a name, stay on one side of a split
    """

    __slots__ = ("_held", "_names", "group", "place")

    def __init__(self, values: Mapping[str, Value | Lazy], place: str = "", group: str = "") -> None:
        names = tuple(values)
        # A dictionary for each of millions of rows would take more memory than the texts.
        self._names, self._held = _NAMES.setdefault(names, names), tuple(values.values())
        self.place, self.group = place, group

    def __getitem__(self, name: str) -> Value:
        if name not in self._names:
            raise KeyError(name)
        value = self._held[self._names.index(name)]
        return value.load() if isinstance(value, Lazy) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Record({dict(zip(self._names, self._held, strict=True))!r}, {self.place!r})"


_NAMES: dict[tuple[str, ...], tuple[str, ...]] = {}
"""Names of fields, which all records of a source share."""


def as_text(value: Any, name: str, place: str, join: str | None = None) -> str:
    """The text of a field: a text as it is, a number as JSON writes it, a list of texts joined by `join`, null as "".

    Raises DataError, with the place, for anything else, and for half a character (a lone surrogate, as JSON's escapes
    can write it).
    """
    if isinstance(value, str):
        return whole_characters(value, name, place)
    if value is None:
        return ""
    if isinstance(value, memoryview):
        return str(value, "utf-8")
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        if join is not None:
            return whole_characters(join.join(value), name, place)
        raise DataError(
            f"{place}: {name!r} is a list of {len(value)} texts; take one of them by its number, as in"
            f" {name}.1, or say what joins them: {setting('join', repr(' '))}"
        )
    raise DataError(f"{place}: {name!r} is a {type(value).__name__}; expected a text, or name it among `images`")


def as_list(value: Any, name: str, place: str) -> list[str]:
    """The texts of a field that holds a list of them, or one. Raises DataError."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [as_text(part, name, place) for part in parts]


def as_number(value: Any, name: str, place: str) -> float:
    """The number of a field. Raises DataError."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"{place}: {name!r} is {shown(repr(value))}; expected a number") from None


def whole_characters(text: str, name: str, place: str) -> str:
    """The text itself. Raises DataError for half a character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{place}: {name!r} holds half a character; take it out: {shown(text)}") from None
    return text
