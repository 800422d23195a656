"""A record: a row's fields by name, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from .pictures import PictureFile

Value = str | float | list[str] | Tensor
"""What a field holds: a text, a number, a list of texts or of tokens, or a picture (channels, height, width) uint8."""

SHARED_NAMES: dict[tuple[str, ...], tuple[str, ...]] = {}  # of fields, for all records of a source


class Record(Mapping[str, Value]):
    """Fields by name. A picture in a file is read each time it is asked for: a list of records holds only its name.

    place  where it stands: "train.de:12"
    group  records of one group, if it has a name, stay on one side of a split
    """

    __slots__ = ("_held", "_names", "group", "place")

    def __init__(self, values: Mapping[str, Value | PictureFile], place: str = "", group: str = "") -> None:
        names = tuple(values)
        # A dictionary for each of millions of rows would take more memory than the texts.
        self._names, self._held = SHARED_NAMES.setdefault(names, names), tuple(values.values())
        self.place, self.group = place, group

    def __getitem__(self, name: str) -> Value:
        if name not in self._names:
            raise KeyError(name)
        value = self._held[self._names.index(name)]
        return value.load() if isinstance(value, PictureFile) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Record({dict(zip(self._names, self._held, strict=True))!r}, {self.place!r})"
