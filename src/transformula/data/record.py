"""A record: a row's fields by name, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

Value = str | Tensor
"""What a field holds: a text, or a picture (channels, height, width) uint8."""


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

    __slots__ = ("_values", "group", "place")

    def __init__(self, values: Mapping[str, Value | Lazy], place: str = "", group: str = "") -> None:
        self._values, self.place, self.group = dict(values), place, group

    def __getitem__(self, name: str) -> Value:
        value = self._values[name]
        return value.load() if isinstance(value, Lazy) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Record({self._values!r}, {self.place!r})"
