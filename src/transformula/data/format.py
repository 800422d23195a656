"""A format of files: a reader that yields the rows of a file, each with its line. Adding one is one file in `formats/`
or, from outside, in a package that `--use` names; `formats/json_rows.py` is an example. It is found by the extension,
with or without `.gz` or `.zst` after it, and serves every task: a document is a row of one column."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, InputError
from ..registry import Registry
from .dialect import delimiter_of
from .lines import PACKED, BadRows, encoding_of, whole_file
from .where import Where

# Where it stands in its file, a line or in words ("entry 3"), and its values by column: texts, numbers, lists, None; a
# whole document also as UTF-8 that is known to be valid.
Row = tuple[int | str, Mapping[str, Any]]

RAGGED = ("refuse", "pad", "fit", "skip")


class BadRow(dict[str, Any]):
    """What stands for a row that cannot be read: no columns, and the error that says why."""

    def __init__(self, error: InputError) -> None:
        super().__init__()
        self.error = error


class Grouped(dict[str, Any]):
    """Values by column of a row that belongs to a group, which a split keeps on one side."""

    def __init__(self, values: Mapping[str, Any], group: str) -> None:
        super().__init__(values)
        self.group = group


LATER = ("delimiter", "ragged", "sheet")
"""Options that came later: what was begun before them goes on."""


@dataclass(frozen=True)
class Options:
    """How rows are read. None: the default of the format."""

    columns: tuple[str | int, ...] = ()  # those that are asked for, by name or number; none: all
    file_format: str | None = None  # of a file, by its extension: "tsv"; by default what the file's name ends in
    header: bool | None = None  # the first row of a table names its columns: unless these are asked for by number
    quoted: bool | None = None  # fields of a table may stand in quotes; the default in csv, not in tsv
    delimiter: str | None = None  # of a table's columns, see `delimiter_of`; by default what it looks like
    ragged: str | None = None  # what becomes of a table's rows of unlike length: see `RAGGED`; by default refused
    sheet: str | None = None  # of a spreadsheet, by its name; by default the first that holds something
    join: str | Mapping[str, str] | None = None  # of a list's texts, for all fields or by field; else it is refused
    encoding: str | None = None  # of text, as Python names it: "latin-1"; by default UTF-8
    channels: int | None = None  # of pictures, 1 or 3; by default as many as a picture has
    also: tuple[str, ...] = ()  # further columns, which some rows or files have
    sparse: bool = False  # of objects in a list, keys that are null are left out: a table gives each all keys of all
    whole: bool = False  # all columns are read, and kept beside the fields
    start: int = 0  # rows that are passed over, by readers that take it: the others are read from the first on
    bad_rows: BadRows = None  # whether a row that cannot be read ends the reading
    where: Where | str | None = None  # conditions on the rows that are kept; see `Where`
    # What a person is told of how a file was read, and how often it was met, which stands for {n}. Readers count here.
    met: Counter[str] = field(default_factory=Counter, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", encoding_of(self.encoding))
        object.__setattr__(self, "delimiter", delimiter_of(self.delimiter))
        if self.ragged not in (None, *RAGGED):
            raise ConfigError(f"ragged: {self.ragged!r} is none of: {', '.join(RAGGED)}")
        if isinstance(self.where, str):
            object.__setattr__(self, "where", Where.parse(self.where))

    def of(self, columns: Iterable[str | int]) -> Options:
        """These options, for some columns: what `where` looks at is among those that are read."""
        wanted = tuple(columns)
        looked_at = self.where.columns if wanted and isinstance(self.where, Where) else ()
        return replace(self, columns=(*wanted, *looked_at))

    def check_taken(self, takes: Collection[str], where: str, names: Sequence[str] = LATER) -> None:
        """Raise ConfigError for one of the options `names` that is said, and means nothing to a reader that takes
        `takes`: the error says `where`."""
        for name in names:
            if getattr(self, name) is not None and name not in takes:
                raise ConfigError(f"{name}: has no meaning for {where}; leave it out")

    def keep(self, row: Mapping[str, Any], place: str) -> bool:
        """Whether a row is kept. Raises DataError, with the place."""
        return not isinstance(self.where, Where) or self.where.keeps(row, place)


@dataclass(frozen=True)
class Format:
    """A reader, and which of `Options` mean something to it."""

    read: Callable[[Path, Options], Iterator[Row]]
    takes: tuple[str, ...] = ()
    columns: bool = True  # whether rows have columns; else each is one text


class Formats(Registry[Format]):
    """Readers by extension, without its dot."""

    def register(  # type: ignore[override]
        self, name: str, needs: Sequence[str] = (), takes: Sequence[str] = (), columns: bool = True
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator that registers a reader for an extension; see `Format` and `Registry.register`. A function of three
        arguments, (path, content, column) -> texts, is a reader of documents."""

        def decorate(read: Callable[..., Any]) -> Callable[..., Any]:
            def documents(path: Path, options: Options) -> Iterator[Row]:
                column = str(options.columns[0]) if options.columns else None
                for number, text in enumerate(read(path, whole_file(path), column), 1):
                    yield f"document {number}", {"text": text}

            of_documents = len(inspect.signature(read).parameters) == 3
            reader = Format(documents, ("column",), False) if of_documents else Format(read, tuple(takes), columns)
            super(Formats, self).register(name, needs, record={"columns": reader.columns})(reader)
            return read

        return decorate

    def has_columns(self, name: str) -> bool:
        """Whether the rows of a format have columns."""
        return bool(self.records()[name].get("columns", True))


formats = Formats("data format", "transformula.data.formats", "@formats.register(")


def extension(path: Path) -> str:
    """The extension that decides the format: 'jsonl' of corpus.jsonl and of corpus.jsonl.gz."""
    path = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return path.suffix.lower().removeprefix(".")


def has_columns(path: Path) -> bool:
    """Whether a file holds rows with columns, by its name."""
    return extension(path) in formats and formats.has_columns(extension(path))


def place_of(path: Path, at: int | str) -> str:
    """Where a row stands: 'rows.tsv:12', or 'rows.json, entry 12'."""
    return f"{path}:{at}" if isinstance(at, int) else f"{path}, {at}"


def duplicate_name(names: Sequence[str]) -> str:
    """What two columns of one name are told by: "columns 2 and 5 are both called 'text'"; "" for none."""
    for place, name in enumerate(names):
        if name in names[:place]:
            return f"columns {names.index(name) + 1} and {place + 1} are both called {name!r}"
    return ""


def without_null(value: Any, inside: bool = False) -> Any:
    """A value whose objects, where they stand in a list, have no keys that are null: a column of such objects has for
    each of them the keys of all, such as the arguments of every tool that any row calls."""
    if isinstance(value, list):
        return [without_null(each, True) for each in value]
    if isinstance(value, dict):
        return {key: without_null(each, inside) for key, each in value.items() if not (inside and each is None)}
    return value


def kind_of(value: Any) -> str:
    """What kind of value it is, in the words of JSON."""
    names = {list: "a list", dict: "an object", bool: "true or false", str: "a string", type(None): "null"}
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"the number {value!r}"[:40] if number else names.get(type(value), type(value).__name__)
