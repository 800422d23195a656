"""Records: rows with fields by name, read one after another from what `sources` knows; and their columns."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

from torch import Tensor

from ..errors import ConfigError, DataError, InputError, did_you_mean, nearest, setting
from ..plain import several
from .column_names import names_columns
from .format import LATER, BadRow, Grouped, Options, duplicate_name
from .lines import excerpt, skip_or_raise
from .messages import ASSISTANT, LISTS, SYSTEM, messages_of, system_of, tools_of
from .pictures import PictureFile, PictureFiles, picture_of, pictures_of
from .sound import SoundFile, sound_of
from .sources import Named, Origin, Source, missing_sources, origins

Value = str | float | list[Any] | Tensor
"""What a field holds: a text, a number, a list of texts or tokens, of numbers or of messages, a picture (channels,
height, width) uint8, or a sound (samples,) float32."""

Held = PictureFile | PictureFiles | SoundFile
"""What is kept in the place of pictures or a sound in files, which is read each time it is asked for."""

SHARED_NAMES: dict[tuple[str, ...], tuple[str, ...]] = {}  # of fields, for all records of a source


class Record(Mapping[str, Value]):
    """Fields by name. A picture or a sound in a file is read each time it is asked for: a list of records holds only
    its name.

    place  where it stands: "train.de:12"
    group  records of one group, if it has a name, stay on one side of a split
    row    all columns of the row that it was made of, where that was asked for
    """

    __slots__ = ("_held", "_names", "group", "place", "row")

    def __init__(
        self, values: Mapping[str, Value | Held], place: str = "", group: str = "",
        row: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        names = tuple(values)
        # A dictionary for each of millions of rows would take more memory than the texts.
        self._names, self._held = SHARED_NAMES.setdefault(names, names), tuple(values.values())
        self.place, self.group, self.row = place, group, row

    def __getitem__(self, name: str) -> Value:
        if name not in self._names:
            raise KeyError(name)
        value = self._held[self._names.index(name)]
        return value.load() if isinstance(value, Held) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def held(self, name: str) -> Value | Held:
        """A field as it is kept: of a picture or a sound in a file, what reads it."""
        return self._held[self._names.index(name)]

    def changed(self, **values: Value) -> Record:
        """The same with other values of some of its fields; what is in a file stays there."""
        held: dict[str, Any] = dict(zip(self._names, self._held, strict=True))
        return Record({**held, **values}, self.place, self.group, self.row)

    def __repr__(self) -> str:
        return f"Record({dict(zip(self._names, self._held, strict=True))!r}, {self.place!r})"


class BadRecord(Record):
    """What stands for a row that cannot be read: no fields, and the error that says why."""

    __slots__ = ("error",)

    def __init__(self, error: InputError, place: str, row: Mapping[str, Any] | None) -> None:
        super().__init__({}, place, row=row)
        self.error = error


EMPTY = ("drop", "keep", "refuse")
KINDS = ("text", "list", "answers", "number", "numbers", "messages", "pictured", "asked", "replied", "said", "picture",
         "pictures", "sound")  # fmt: skip
ROLE_OF = {"asked": "user", "replied": ASSISTANT}  # whose message a text is, where messages may stand as well


@dataclass
class Tally:
    """What a pass over records met."""

    rows: int = 0
    kept: int = 0  # rows that were given out
    empty: Counter[str] = field(default_factory=Counter)  # rows of which a side is empty, by the field that is
    unkept: int = 0  # rows that `where` leaves out
    first: str = ""  # where the first of these stands

    def __str__(self) -> str:
        if not self.empty:
            return f"{self.kept:,} rows"
        sides = ", ".join(f"{name} {count:,}" for name, count in self.empty.items())
        dropped = self.rows - self.unkept - self.kept
        done = f"{dropped:,} left out" if dropped else "kept"
        return f"{self.kept:,} rows; of others a side is empty ({sides}; first: {self.first}): {done}"


@dataclass(frozen=True)
class Part:
    """What records come from, and how its rows become some; see `read_records`."""

    origin: Origin
    options: Options
    columns: Mapping[str, str | int] | None  # by field; None: all, under their names
    kinds: Mapping[str, str]  # what fields hold that are no texts; see `KINDS`

    def __post_init__(self) -> None:
        for kind in self.kinds.values():
            if kind not in KINDS:
                raise ConfigError(f"kinds: {kind!r} is none of: {', '.join(KINDS)}")
        if self.columns is not None:
            self._check_fields(self.columns)
        self.origin.check(self.options, bool({"picture", "pictures"} & {*self.kinds.values()}))

    def _check_fields(self, fields: Mapping[str, Any]) -> None:
        """Raise ConfigError where something is said of a field that is not there."""
        for name, kind in self.kinds.items():
            if name not in fields:
                key, near = "images" if kind == "picture" else "kinds", did_you_mean(nearest(name, fields))
                raise ConfigError(f"{key}: {name!r} is no field;{near} fields: {', '.join(fields)}")

    def fields(self, row: Mapping[str, Any], place: str) -> dict[str, Value | Held]:
        columns = self.columns
        if columns is None:
            columns = {name: name for name in row}
            self._check_fields(columns)
        values: dict[str, Value | Held] = {}
        for name, column in columns.items():
            value = row[column] if column in row else find_value(row, column, place)  # type: ignore[index]
            plain = isinstance(value, str) and name not in self.kinds  # nearly all are, of millions of rows
            values[name] = whole_characters(value, name, place) if plain else self._value(name, value, place)
        for name, kind in self.kinds.items():
            if kind in ("messages", "asked"):
                said = cast(list[Any], values[name])
                values[name] = [*tools_of(row, place), *system_of(row, said), *said]
        return values

    def _value(self, name: str, value: Any, place: str) -> Value | Held:
        kind = self.kinds.get(name)
        parts = value if isinstance(value, (list, tuple)) else [value]
        if kind in ("picture", "pictures"):
            read = picture_of if kind == "picture" else pictures_of
            return read(value, place, self.origin.folder, self.options.channels)
        if kind == "sound":
            return sound_of(value, place, self.origin.folder)
        if isinstance(value, (Tensor, SoundFile)):
            return value
        if kind == "list":
            return [as_text(part, name, place) for part in parts]
        if kind == "answers":
            return [as_text(part, name, place) for part in answers_in(value)]
        if kind == "number":
            return as_number(value, name, place)
        if kind == "numbers":
            return [as_number(part, name, place) for part in parts]
        if kind in ROLE_OF and isinstance(value, str):
            value = [{"role": ROLE_OF[kind], "content": whole_characters(value, name, place)}]
        dialogue = kind in ("messages", "pictured") or kind in ROLE_OF
        if dialogue or (kind == "said" and any(isinstance(part, Mapping) for part in parts)):
            whole, pictured = kind not in ("replied", "said"), kind == "pictured"
            return messages_of(value, f"{place}: {name!r}", whole=whole, pictured=pictured)
        if kind == "said" and isinstance(value, (list, tuple)):
            return [as_text(part, name, place) for part in value]
        join = self.options.join
        return as_text(value, name, place, join.get(name) if isinstance(join, Mapping) else join)


class Records:
    """Records, read anew at each pass; nothing is kept in memory.

    name   as a person named the source
    tally  what the last pass met, complete when it is at its end
    notes  what a person is told: of tables, and, once they are read, what is left out
    """

    def __init__(
        self, parts: Sequence[Part], empty: str, optional: Sequence[str] = (), of_tables: Sequence[str] = ()
    ) -> None:
        if empty not in EMPTY:
            raise ConfigError(f"empty: {empty!r} is none of: {', '.join(EMPTY)}")
        self.name = ", ".join(part.origin.name for part in parts)
        self._parts, self._empty, self._optional, self._of_tables = parts, empty, optional, of_tables
        self.tally = Tally()

    @property
    def notes(self) -> list[str]:
        return [*self._of_tables, *(note for part in self._parts for note in part.origin.notes)]

    def read_all(self, key: str, notes: list[str], what: str = "rows") -> list[Record]:
        """All records at once, of which the setting `key` says the source; `notes` takes what a person is told of them.
        Raises DataError where there are none."""
        rows = list(self)
        if not rows:
            raise DataError(f"holds no {what}; expected some for `{key}`", path=self.name)
        notes += [f"{key}: {self.tally}"] if self._empty == "drop" and self.tally.empty else []
        notes += self.notes
        return rows

    def __iter__(self) -> Iterator[Record]:
        self.tally = tally = Tally()
        for part in self._parts:
            for place, row in part.origin.read(part.options):
                tally.rows += 1
                whole = row if part.options.whole else None
                try:
                    if isinstance(row, BadRow):
                        raise row.error
                    fields = self._fields(part, row, place, tally)
                except DataError as error:
                    yield BadRecord(skip_or_raise(error, part.options.bad_rows), place, whole or None)
                    continue
                if fields is not None:
                    tally.kept += 1
                    group = place.rpartition(":")[0] if part.origin.grouped else ""
                    yield Record(fields, place, row.group if isinstance(row, Grouped) else group, whole)

    def _fields(
        self, part: Part, row: Mapping[str, Any], place: str, tally: Tally
    ) -> dict[str, Value | Held] | None:
        """The fields of a row; None where it is left out. Raises DataError."""
        if part.options.where is not None and not part.options.keep(row, place):
            tally.unkept += 1
            return None
        fields = part.fields(row, place)
        empty = [name for name, value in fields.items() if is_blank(value) and name not in self._optional]
        if empty and self._empty == "refuse":
            raise DataError(f"{place}: {empty[0]!r} is empty; fill it, take the row out, or say empty: drop")
        if empty:
            tally.first = tally.first or place
            tally.empty.update(empty)
        return None if empty and self._empty == "drop" else fields


def is_blank(value: Value | Held) -> bool:
    """Whether a text, or each text of a list, is but white space; or there is nothing in a list."""
    if isinstance(value, str):
        return not value or value.isspace()
    return isinstance(value, list) and not any(part.strip() if isinstance(part, str) else True for part in value)


def read_records(
    source: Source | Sequence[Source],
    fields: Mapping[str, str | int] | Sequence[str] | None = None,
    *,
    images: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    empty: str = "drop",
    optional: Sequence[str] = (),
    like: Named = None,
    **options: Any,
) -> Records:
    """The records of a source, or of several one after another.

    source  see `sources`; parallel files are a mapping from names to files
    fields  which columns become fields: {"source": "de", "target": "en"}, or by number, from 1; or only names. A name
            with dots goes into an object or, by number, into a list: "translation.de", "target.1"; of several with a
            plus between, as "title + body", the texts are joined by blanks. None: all columns
    images  fields whose column names a picture's file, seen from the file that names it, or holds a picture's bytes
    kinds   what other fields hold that are no texts: "list" (of texts), "answers" (a list, see `answers_in`), "number",
            "numbers" (a list), "sound" (named or held as a picture is), "pictures" (one, or a list of several), or
            "messages", which `messages_of` reads; the tools that a row lists are the first message, and what the system
            says in a column of its own stands behind them; "asked" and "replied" may be a text, too, of user and
            assistant; "said": a text, a list of texts, or messages; or "pictured": messages about the row's pictures
    empty   what is done with a row of which a text or a list is empty: "drop", "keep" or "refuse"
    optional  fields that may be empty
    like    a source whose first row names the columns, for tables of as many columns whose first row does not
    the rest: see `Options`

    Raises DataError at the row that cannot be read, with its place; ConfigError for options that contradict the source.
    """
    sources: list[Source] = several(source)
    if not sources:
        raise ConfigError("source: none is named")
    columns: dict[str, str | int] | None = None
    if fields is not None:
        named = fields if isinstance(fields, Mapping) else {name: name for name in fields}
        columns = {name: int(c) if isinstance(c, str) and c.isdecimal() else c for name, c in named.items()}
    kinds = {**(kinds or {}), **dict.fromkeys(images, "picture")}
    said = not {"messages", "asked"}.isdisjoint(kinds.values())
    also = (*LISTS, SYSTEM) if said else ()
    of_fields = tuple(chain.from_iterable(map(summands, (columns or {}).values())))
    how = Options(columns=of_fields, also=also, sparse=said, **options)
    by_number = bool(columns) and all(isinstance(column, int) for column in how.columns)
    parts = []
    notes: list[str] = []
    for origin in (origin for one in sources for origin in origins(one, how.file_format)):
        named_pictures = kinds
        if origin.image is not None and not {"picture", "pictures", "sound"} & {*kinds.values()}:
            names = [origin.image] if columns is None else [n for n, c in columns.items() if c == origin.image]
            named_pictures = {**kinds, **dict.fromkeys(names, "picture")}
        header: bool | None = how.header
        own: Columns = columns
        if origin.table and header is None:
            header, own, note = of_table(origin, how, columns, by_number, like)
            notes += [note] if note else []
        columns_read = how.of(() if how.whole else how.columns)
        parts.append(Part(origin, replace(columns_read, header=header), own, named_pictures))
    return Records(parts, empty, optional, notes)


Columns = Mapping[str, str | int] | None  # by field; None: all


def of_table(origin: Origin, how: Options, columns: Columns, by_number: bool, like: Named) -> tuple[bool, Columns, str]:
    """Whether the first row of a table names its columns; these columns, by number where another table names them; and
    a note on what may not be meant."""
    if columns is None:
        return True, None, ""
    first = next((list(row.values()) for _, row in origin.read(replace(how, header=False, columns=()))), [])
    if by_number:
        note = (
            f"{origin.name}: its first row is read as a row, as columns are named by number, and looks like their names"
        )
        return False, columns, f"{note}: {', '.join(map(str, first))}" if first and names_columns(first) else ""
    wanted = [column for column in how.columns if isinstance(column, str)]
    if like is None or missing_sources(like) or any(name in first for name in wanted):
        return True, columns, ""
    reading = {key: getattr(how, key) for key in ("quoted", *LATER, "encoding", "file_format")}
    names, named = columns_of(like, **reading)
    if not named or len(names) != len(first) or not all(name in names for name in wanted):
        return True, columns, ""
    numbers = {
        field: "+".join(str(names.index(part) + 1 if isinstance(part, str) else part) for part in summands(column))
        for field, column in columns.items()
    }
    own = {field: int(number) if number.isdecimal() else number for field, number in numbers.items()}
    return False, own, f"{origin.name}: its first row names no columns; they are called as in {like}"


def summands(column: str | int) -> list[str | int]:
    """The columns of "title + body", by name or number; one alone of any other."""
    parts = re.split(r"\s*\+\s*", column) if isinstance(column, str) else []
    return [int(part) if part.isdecimal() else part for part in parts] if len(parts) > 1 and all(parts) else [column]


def find_value(row: Mapping[str, Any], column: str | int, place: str) -> Any:
    """The value of a column by name, by number from 1, or by a path with dots; of several, their texts."""
    if str(column) in row:
        return row[str(column)]
    if len(several := summands(column)) > 1:
        return " ".join(as_text(find_value(row, each, place), str(each), place) for each in several)
    if isinstance(column, int):
        if 1 <= column <= len(row):
            return list(row.values())[column - 1]
        raise DataError(
            f"{place}: has no column number {column}; it has {len(row)}: {', '.join(row)}; the row: {shown_row(row)}"
        )
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
                f" the row: {shown_row(row)}"
            )
    return value


def shown_row(row: Mapping[str, Any]) -> str:
    """A row as an error shows it."""
    return excerpt(json.dumps(dict(row), ensure_ascii=False, default=lambda value: type(value).__name__))


def answers_in(value: Any) -> list[Any]:
    """The answers that a field lists: texts, objects that each have an `answer` (as in VQA's files), or a text that is
    such a list in JSON, as a table holds it. Any other text is one answer."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError):
            value = json.loads(value)
    parts = list(value) if isinstance(value, (list, tuple)) else [value]
    return [part["answer"] if isinstance(part, Mapping) and "answer" in part else part for part in parts]


def as_number(value: Any, name: str, place: str) -> float:
    """The number of a field, which may be written as a text. Raises DataError, with the place, for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"{place}: {name!r} is {excerpt(repr(value))}; expected a number") from None


def as_text(value: Any, name: str, place: str, join: str | None = None) -> str:
    """The text of a field: a text as it is, a number as JSON writes it, a list of texts joined by `join`, null as "".
    Raises DataError, with the place, for anything else, and for half a character (as JSON's escapes can write it)."""
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


def whole_characters(text: str, name: str, place: str) -> str:
    """The text itself. Raises DataError for half a character."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{place}: {name!r} holds half a character; take it out: {excerpt(text)}") from None
    return text


def columns_of(source: Source | Sequence[Source], **options: Any) -> tuple[list[str], bool | None]:
    """The columns of a source, by its first row; see `names_columns`, and `Options` for the rest. Raises DataError
    where it has no rows.

    names   by which they are asked for: numbers, from 1, of a table whose first row does not name them
    header  whether the first row names them; None where no row does, as each says its names or files are columns
    """
    how = Options(**options)
    origin = origins(several(source)[0], how.file_format)[0]
    origin.check(how, images=False)
    for place, row in origin.read(replace(how, header=False)):
        if isinstance(row, BadRow):
            continue
        if not origin.table:
            return list(row), None
        names = list(map(str, row.values()))
        distinct = list(dict.fromkeys(names))
        if 1 < len(distinct) < len(names) and names_columns(distinct):
            raise DataError(f"{place}: {duplicate_name(names)}; give one of them another name: {shown_row(row)}")
        return (names, True) if names_columns(names) else (list(row), False)
    raise DataError("holds no rows", path=origin.name)


def text_column(columns: Sequence[str], strings: Sequence[str], path: object) -> str:
    """Which column holds the text: `text`, or the only one of strings. Raises DataError that lists the columns."""
    if "text" in columns or len(strings) == 1:
        return "text" if "text" in columns else strings[0]
    raise DataError(
        f"which column is the text? There is none called 'text', and {len(strings)} hold strings (columns:"
        f" {', '.join(columns)}); name it with: {setting('column', 'NAME')}",
        path=path,
    )


def source_names(source: object) -> str:
    """Sources for a message: "a.tsv, b.tsv"."""
    return ", ".join(map(str, several(source)))


def columns_in_words(source: object, columns: Sequence[str]) -> str:
    """The columns of a source, for a message."""
    return f"the rows of {source_names(source)} have the columns {', '.join(columns)}"


def unknown_column(key: str, source: object, columns: Sequence[str], example: str, what: str = "") -> ConfigError:
    """The error where nothing says which column holds what the setting `key` names, `what` in words; with an example
    of the option."""
    what, option = what or key, key.replace("_", "-")
    near = did_you_mean(nearest(what, columns))
    return ConfigError(
        f"{key}: {columns_in_words(source, columns)}: say which holds the {what}, as in --{option} {example}"
        f"{';' + near if near else ''}"
    )
