"""Records: rows with fields by name, read one after another from what people have.

    {"source": "train.de", "target": "train.en"}   parallel files, line by line; also "train.{de,en}"
    pairs.tsv, .csv, .jsonl, .parquet              files with columns, by name or by number
    a folder                                       pictures, and a file of captions that names them
    {"image": "train-images-idx3-ubyte.gz", ...}   IDX files, beside each other
    hub:NAME, hub:NAME:SPLIT, hub:NAME:CONFIG:SPLIT   a data set of the Hugging Face hub, streamed
    python-summaries, cldr-dates:en-de             built-in pairs, see `pair_set`

Adding a format of files: see `record_format`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import ConfigError, DataError, did_you_mean, nearest, setting
from .column_names import names_columns
from .format import extension
from .hub import is_hub, read_hub
from .lines import lines_of, shown
from .pair_set import is_pair_set, pair_sets
from .pictures import captions_of, idx_values, is_idx, picture
from .record import Lazy, Record, Value
from .record_format import Options, record_formats

Source = str | Path | Mapping[str, str | Path]

EMPTY = ("drop", "keep", "refuse")


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


class Records:
    """Records, read anew at each pass; nothing is kept in memory.

    name   as a person named the source
    tally  what the last pass met, complete when it is at its end
    notes  what a built-in set itself leaves out, a line each; known from the first pass on
    """

    def __init__(self, name: str, parts: Sequence[_Part], empty: str) -> None:
        if empty not in EMPTY:
            raise ConfigError(f"empty: {empty!r} is none of: {', '.join(EMPTY)}")
        self.name, self._parts, self._empty = name, parts, empty
        self.tally = Tally()

    @property
    def notes(self) -> list[str]:
        return [
            f"{part.name} leaves out " + ", ".join(f"{count:,} {what}" for what, count in part.left_out.items())
            for part in self._parts
            if part.left_out
        ]

    def __iter__(self) -> Iterator[Record]:
        self.tally = tally = Tally()
        rows = ((part.grouped, *row) for part in self._parts for row in part.rows())
        for grouped, place, values in rows:
            tally.rows += 1
            empty = [name for name, value in values.items() if isinstance(value, str) and not value.strip()]
            if empty:
                if self._empty == "refuse":
                    raise DataError(f"{place}: {empty[0]!r} is empty; fill it, take the row out, or say empty: drop")
                tally.first = tally.first or place
                for name in empty:
                    tally.empty[name] = tally.empty.get(name, 0) + 1
                if self._empty == "drop":
                    continue
            tally.kept += 1
            yield Record(values, place, place.rpartition(":")[0] if grouped else "")


def read_records(
    source: Source | Sequence[Source],
    fields: Mapping[str, str | int] | Sequence[str] | None = None,
    *,
    images: Sequence[str] = (),
    empty: str = "drop",
    form: str | None = None,
    header: bool | None = None,
    quoted: bool | None = None,
    join: str | Mapping[str, str] | None = None,
    channels: int | None = None,
) -> Records:
    """The records of a source, or of several of one kind after another.

    source  see above; parallel files are a mapping from names to files
    fields  which columns become fields: {"source": "de", "target": "en"}, or by number, from 1; or only names. A name
            with dots goes into an object or, by number, into a list: "translation.de", "target.1". None: all columns
    images  fields whose column names a picture's file, seen from the file that names it, or holds a picture's bytes
    empty   what is done with a row of which a text is empty: "drop", "keep" or "refuse"
    the rest: see `Options`

    Raises DataError at the row that cannot be read, with its place; ConfigError for options that contradict the source.
    """
    sources: list[Source] = [source] if isinstance(source, (str, Path, Mapping)) else list(source)
    if not sources:
        raise ConfigError("source: none is named")
    columns: dict[str, str | int] | None = None
    if fields is not None:
        given = fields if isinstance(fields, Mapping) else {name: name for name in fields}
        columns = {name: int(c) if isinstance(c, str) and c.isdecimal() else c for name, c in given.items()}
    usual = not (columns and all(isinstance(column, int) for column in columns.values()))
    options = Options(tuple((columns or {}).values()), form, header, quoted, join, channels)
    parts = [_part(one, columns, tuple(images), options, usual) for one in sources]
    name = ", ".join(part.name for part in parts)
    return Records(name, parts, empty)


def beside(source: Source) -> dict[str, str]:
    """The parallel files of a name such as train.{de,en}, by what stands in the braces; none for any other source."""
    braces = re.fullmatch(r"(.*)\{([^{}]*,[^{}]*)\}(.*)", source) if isinstance(source, str) else None
    if braces is None or Path(str(source)).exists():
        return {}
    start, middle, end = braces.groups()
    return {name.strip(): f"{start}{name.strip()}{end}" for name in middle.split(",")}


@dataclass(frozen=True)
class Columns:
    """The columns of a source.

    names   by which they are asked for: numbers, from 1, of a table whose first row does not name them
    header  whether the first row names them; None where no row does, as each says its names or files are columns
    """

    names: list[str]
    header: bool | None = None


def columns_of(source: Source | Sequence[Source]) -> Columns:
    """The columns of a source, by its first row; see `names_columns`. Raises DataError where it has no rows."""
    first: Source = source if isinstance(source, (str, Path, Mapping)) else next(iter(source))
    part = _part(first, None, (), Options(), False)
    for _, row in part.raw():
        if not part.table:
            return Columns(list(row))
        fields = list(map(str, row.values()))
        return Columns(fields, True) if names_columns(fields) else Columns(list(row), False)
    raise DataError("holds no rows", path=part.name)


@dataclass(frozen=True)
class _Part:
    """One source: its name, its rows with their places, as they are and as the fields that are asked for; and what is
    told of a built-in set (see `PairSet`, `Pairs`). A table's first row may name its columns."""

    name: str
    raw: Callable[[], Iterator[tuple[str, Mapping[str, Any]]]]
    rows: Callable[[], Iterator[tuple[str, dict[str, Value | Lazy]]]]
    grouped: bool = False
    left_out: dict[str, int] = field(default_factory=dict)
    table: bool = False


def _part(
    source: Source, columns: dict[str, str | int] | None, images: tuple[str, ...], options: Options, header: bool
) -> _Part:
    if isinstance(source, str) and is_pair_set(source):
        return _built_in(source, columns, images, options)
    source = beside(source) or source
    if isinstance(source, Mapping):
        files = {name: Path(file).expanduser() for name, file in source.items()}
        name = " + ".join(map(str, files.values()))
        _refuse(options, ("channels",), name)

        def rows_beside() -> Iterator[tuple[str, Mapping[str, Any]]]:
            return _parallel(files, options)

        return _Part(name, rows_beside, lambda: _chosen(rows_beside(), columns, images, options, Path()))
    if is_hub(source):
        named = str(source)
        _refuse(options, ("join", *(["channels"] if images else [])), named)

        def streamed() -> Iterator[tuple[str, Mapping[str, Any]]]:
            for number, row in read_hub(named):
                yield f"{named}, row {number}", row

        return _Part(named, streamed, lambda: _chosen(streamed(), columns, images, options, Path()))
    path = Path(source).expanduser()
    if path.is_dir():
        path, named_image = captions_of(path, columns)
        images = images or ((named_image,) if columns is None or named_image in columns else ())
        if columns is not None and not images:
            images = tuple(name for name, column in columns.items() if column == named_image)
    kind = options.form or extension(path)
    if kind not in record_formats:
        near = did_you_mean([*nearest(kind, record_formats.names()), *nearest(str(source), pair_sets.names())])
        raise DataError(
            f"is of no format with columns, by its name;{near} known: {', '.join(record_formats.names())};"
            f" name one with form: tsv; parallel files are named together, as in train.{{de,en}}; built in:"
            f" {', '.join(pair_sets.names())}",
            path=path,
        )
    known = record_formats.get(kind)
    if "header" in known.takes and options.header is None:
        options = replace(options, header=header)
    _refuse(
        options,
        ("form", *known.takes, *(["channels"] if images else [])),
        f".{kind} files" + ("" if images else ", no images"),
    )
    _images_known(images, columns)

    def rows() -> Iterator[tuple[str, Mapping[str, Any]]]:
        for line, row in known.read(path, options):
            yield f"{path}:{line}", row

    table = "header" in known.takes
    return _Part(str(path), rows, lambda: _chosen(rows(), columns, images, options, path.parent), table=table)


def _built_in(name: str, columns: dict[str, str | int] | None, images: tuple[str, ...], options: Options) -> _Part:
    """A set of pairs. What it leaves out is known once it is read."""
    kind, _, variant = name.partition(":")
    _refuse(options, (), f"{name}, which is built in")
    if images and not pair_sets.get(kind).pictures:
        raise ConfigError(f"images: {name} has none; leave it out")
    left_out: dict[str, int] = {}

    def rows() -> Iterator[tuple[str, Mapping[str, Any]]]:
        pairs = pair_sets.get(kind).read(variant)
        left_out.update(pairs.left_out)
        for place, source, target in pairs.rows:
            yield place, {"source": source, "target": target}

    made = pair_sets.get(kind)
    return _Part(name, rows, lambda: _chosen(rows(), columns, (), options, Path()), made.grouped, left_out)


def _images_known(images: Iterable[str], columns: dict[str, str | int] | None) -> None:
    for name in images:
        if columns is not None and name not in columns:
            raise ConfigError(f"images: {name!r} is no field;{did_you_mean(nearest(name, columns))} fields: "
                              + ", ".join(columns))  # fmt: skip


def _refuse(options: Options, takes: Iterable[str], where: str) -> None:
    """Refuse an option that would have no effect."""
    for name in ("form", "header", "quoted", "join", "channels"):
        if getattr(options, name) is not None and name not in takes:
            raise ConfigError(f"{name}: has no meaning for {where}; leave it out")


def _chosen(
    rows: Iterator[tuple[str, Mapping[str, Any]]],
    columns: dict[str, str | int] | None,
    images: tuple[str, ...],
    options: Options,
    folder: Path,
) -> Iterator[tuple[str, dict[str, Value | Lazy]]]:
    """The fields asked for, as texts and pictures."""
    for place, row in rows:
        asked = columns if columns is not None else {name: name for name in row}
        values: dict[str, Value | Lazy] = {}
        for name, column in asked.items():
            found = _find(row, column, place)
            if name in images:
                values[name] = picture(found, place, folder, options.channels)
            elif isinstance(found, Tensor):
                values[name] = found
            else:
                values[name] = _text(found, name, place, options.join)
        for name in images:
            if name not in values:
                raise ConfigError(f"images: {name!r} is no field; fields: {', '.join(values)}")
        yield place, values


def _find(row: Mapping[str, Any], column: str | int, place: str) -> Any:
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
            raise DataError(
                f"{place}: has no column {column!r};{did_you_mean(nearest(column, names))} it has: {', '.join(names)};"
                f" the row: {shown(json.dumps(dict(row), ensure_ascii=False, default=lambda v: type(v).__name__))}"
            )
    return value


def _text(value: Any, name: str, place: str, join: str | Mapping[str, str] | None) -> str:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
            return value
        except UnicodeEncodeError:
            raise DataError(f"{place}: {name!r} holds half a character; take it out: {shown(value)}") from None
    if value is None:
        return ""
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        by = join.get(name) if isinstance(join, Mapping) else join
        if by is not None:
            return by.join(value)
        raise DataError(
            f"{place}: {name!r} is a list of {len(value)} texts; take one of them by its number, as in"
            f" {name}.1, or say what joins them: {setting('join', repr(' '))}"
        )
    raise DataError(f"{place}: {name!r} is a {type(value).__name__}; expected a text, or name it among `images`")


def _parallel(files: Mapping[str, Path], options: Options) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of files that lie beside each other: line n of each is row n."""

    def values(path: Path) -> Iterator[tuple[int, Any]]:
        return idx_values(path, options.channels) if is_idx(path) else lines_of(path)

    columns = {name: values(path) for name, path in files.items()}
    first = next(iter(files.values()))
    done = object()
    for number, row in enumerate(itertools.zip_longest(*columns.values(), fillvalue=(0, done)), 1):
        if any(value is done for _, value in row):
            _unequal(files, columns, [value is done for _, value in row], row, number)
        yield f"{first}:{number}", dict(zip(columns, (value for _, value in row), strict=True))


def _unequal(
    files: Mapping[str, Path], columns: Mapping[str, Iterator[Any]], ended: list[bool], row: Any, number: int
) -> None:
    """Say how many lines each has, and show the first one without a partner."""
    counts = [
        number - 1 if end else number + sum(1 for _ in rest) for end, rest in zip(ended, columns.values(), strict=True)
    ]
    told = ", ".join(f"{path} has {count:,}" for path, count in zip(files.values(), counts, strict=True))
    at = ended.index(False)
    value = row[at][1]
    line = shown(value) if isinstance(value, str) else "a picture"
    raise DataError(
        f"has no partner: {told} lines (a line ends at \\n only); the files must be equal line by line: {line}",
        path=list(files.values())[at],
        line=number,
    )
