"""Records: rows with fields by name, read one after another from what `sources` knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import ConfigError, DataError, did_you_mean, nearest
from .column_names import names_columns
from .format import Options
from .lines import shown
from .pictures import picture
from .record import Lazy, Record, Value, as_list, as_number, as_text
from .sources import Origin, Source, origins

EMPTY = ("drop", "keep", "refuse")

KINDS = ("text", "list", "number", "picture")


@dataclass
class Tally:
    """What a pass over records met.

    rows   all rows, the empty ones too
    empty  rows of which a side is empty, by the field that is; the first such row's place in `first`
    kept   rows that were given out
    """

    rows: int = 0
    kept: int = 0
    empty: dict[str, int] = field(default_factory=dict)
    first: str = ""

    @property
    def dropped(self) -> int:
        """Rows that were left out."""
        return self.rows - self.kept

    def __str__(self) -> str:
        if not self.empty:
            return f"{self.kept:,} rows"
        sides = ", ".join(f"{name} {count:,}" for name, count in self.empty.items())
        done = f"{self.dropped:,} left out" if self.dropped else "kept"
        return f"{self.kept:,} rows; of others a side is empty ({sides}; first: {self.first}): {done}"


@dataclass(frozen=True)
class Fields:
    """Which columns become fields, and what these hold.

    columns  by field: a column's name, its number from 1, or a path with dots; None: all columns under their names
    kinds    what fields hold that are no texts: "list", "number" or "picture"
    """

    columns: Mapping[str, str | int] | None
    kinds: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, kind in self.kinds.items():
            key = "images" if kind == "picture" else "kinds"
            if kind not in KINDS:
                raise ConfigError(f"kinds: {kind!r} is none of: {', '.join(KINDS)}")
            if self.columns is not None and name not in self.columns:
                near = did_you_mean(nearest(name, self.columns))
                raise ConfigError(f"{key}: {name!r} is no field;{near} fields: {', '.join(self.columns)}")

    @property
    def images(self) -> tuple[str, ...]:
        """The fields that hold pictures."""
        return tuple(name for name, kind in self.kinds.items() if kind == "picture")

    def of(self, row: Mapping[str, Any], place: str, folder: Path, options: Options) -> dict[str, Value | Lazy]:
        """The fields of a row. Raises DataError, with its place, for a column that is not there or holds another kind
        of value."""
        columns = self.columns
        if columns is None:
            columns = {name: name for name in row}
            unknown = [name for name in self.kinds if name not in columns]
            if unknown:
                raise ConfigError(f"images: {unknown[0]!r} is no field; fields: {', '.join(columns)}")
        values: dict[str, Value | Lazy] = {}
        for name, column in columns.items():
            value, kind = find(row, column, place), self.kinds.get(name)
            if kind == "picture":
                values[name] = picture(value, place, folder, options.channels)
            elif isinstance(value, Tensor):
                values[name] = value
            elif kind == "list":
                values[name] = as_list(value, name, place)
            elif kind == "number":
                values[name] = as_number(value, name, place)
            else:
                join = options.join.get(name) if isinstance(options.join, Mapping) else options.join
                values[name] = as_text(value, name, place, join)
        return values


class Records:
    """Records, read anew at each pass; nothing is kept in memory.

    name   as a person named the source
    tally  what the last pass met, complete when it is at its end
    notes  what a built-in set itself leaves out, a line each; known from the first pass on
    """

    def __init__(self, parts: Sequence[tuple[Origin, Fields, Options]], empty: str) -> None:
        if empty not in EMPTY:
            raise ConfigError(f"empty: {empty!r} is none of: {', '.join(EMPTY)}")
        self.name = ", ".join(origin.name for origin, _, _ in parts)
        self._parts, self._empty = parts, empty
        self.tally = Tally()

    @property
    def notes(self) -> list[str]:
        return [
            f"{origin.name} leaves out " + ", ".join(f"{count:,} {what}" for what, count in origin.left_out.items())
            for origin, _, _ in self._parts
            if origin.left_out
        ]

    def __iter__(self) -> Iterator[Record]:
        self.tally = tally = Tally()
        for origin, fields, options in self._parts:
            for place, row in origin.read(options):
                values = fields.of(row, place, origin.folder, options)
                tally.rows += 1
                empty = [name for name, value in values.items() if _is_empty(value)]
                if empty:
                    if self._empty == "refuse":
                        message = f"{place}: {empty[0]!r} is empty; fill it, take the row out, or say empty: drop"
                        raise DataError(message)
                    tally.first = tally.first or place
                    for name in empty:
                        tally.empty[name] = tally.empty.get(name, 0) + 1
                    if self._empty == "drop":
                        continue
                tally.kept += 1
                yield Record(values, place, place.rpartition(":")[0] if origin.grouped else "")


def _is_empty(value: Value | Lazy) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return isinstance(value, list) and not any(map(str.strip, value))


def read_records(
    source: Source | Sequence[Source],
    fields: Mapping[str, str | int] | Sequence[str] | None = None,
    *,
    images: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    empty: str = "drop",
    **options: Any,
) -> Records:
    """The records of a source, or of several one after another.

    source  see `sources`; parallel files are a mapping from names to files
    fields  which columns become fields: {"source": "de", "target": "en"}, or by number, from 1; or only names. A name
            with dots goes into an object or, by number, into a list: "translation.de", "target.1". None: all columns
    images  fields whose column names a picture's file, seen from the file that names it, or holds a picture's bytes
    kinds   what other fields hold that are no texts: "list" (of texts) or "number"
    empty   what is done with a row of which a text is empty: "drop", "keep" or "refuse"
    the rest: see `Options`

    Raises DataError at the row that cannot be read, with its place; ConfigError for options that contradict the source.
    """
    given: list[Source] = [source] if isinstance(source, (str, Path, Mapping)) else list(source)
    if not given:
        raise ConfigError("source: none is named")
    columns: dict[str, str | int] | None = None
    if fields is not None:
        named = fields if isinstance(fields, Mapping) else {name: name for name in fields}
        columns = {name: int(c) if isinstance(c, str) and c.isdecimal() else c for name, c in named.items()}
    every = {**(kinds or {}), **dict.fromkeys(images, "picture")}
    how = Options(columns=tuple((columns or {}).values()), **options)
    by_number = bool(columns) and all(isinstance(column, int) for column in (columns or {}).values())
    parts = []
    for one in given:
        for origin in origins(one, how.form):
            wanted = every if "picture" in every.values() else {**every, **_image(origin, columns)}
            made = Fields(columns, wanted)
            origin.check(how, made.images)
            header = not by_number if origin.table and how.header is None else how.header
            parts.append((origin, made, replace(how, header=header)))
    return Records(parts, empty)


def _image(origin: Origin, columns: Mapping[str, str | int] | None) -> dict[str, str]:
    """The fields that hold the pictures of a folder with captions."""
    if origin.image is None:
        return {}
    names = [origin.image] if columns is None else [name for name, c in columns.items() if c == origin.image]
    return dict.fromkeys(names, "picture")


def find(row: Mapping[str, Any], column: str | int, place: str) -> Any:
    """The value of a column by name, by number from 1, or by a path with dots."""
    if str(column) in row:
        return row[str(column)]
    if isinstance(column, int):
        if 1 <= column <= len(row):
            return list(row.values())[column - 1]
        raise DataError(f"{place}: has no column number {column}; it has {len(row)}: {', '.join(row)}")
    value: Any = row
    for step in column.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, (list, tuple)) and step.isdecimal() and 1 <= int(step) <= len(value):
            value = value[int(step) - 1]
        else:
            names = [*row, *(f"{k}.{n}" for k, v in row.items() if isinstance(v, Mapping) for n in v)]
            listed = ", ".join(names) or "nothing"
            raise DataError(
                f"{place}: has no column {column!r};{did_you_mean(nearest(column, names))} it has: {listed};"
                f" the row: {shown(json.dumps(dict(row), ensure_ascii=False, default=lambda v: type(v).__name__))}"
            )
    return value


@dataclass(frozen=True)
class Columns:
    """The columns of a source.

    names   by which they are asked for: numbers, from 1, of a table whose first row does not name them
    header  whether the first row names them; None where no row does, as each says its names or files are columns
    """

    names: list[str]
    header: bool | None = None


def columns_of(source: Source | Sequence[Source], quoted: bool | None = None) -> Columns:
    """The columns of a source, by its first row; see `names_columns`. Raises DataError where it has no rows."""
    first: Source = source if isinstance(source, (str, Path, Mapping)) else next(iter(source))
    origin = origins(first)[0]
    for _, row in origin.read(Options(header=False, quoted=quoted)):
        if not origin.table:
            return Columns(list(row))
        names = list(map(str, row.values()))
        return Columns(names, True) if names_columns(names) else Columns(list(row), False)
    raise DataError("holds no rows", path=origin.name)
