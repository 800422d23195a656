"""Documents: rows of which one column is the text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DataError
from ..plain import several
from ..tokenizers.texts import Content, Texts, pieces_of
from .aside import DocumentsAside
from .built_in import built_in_names
from .column_names import names_columns
from .format import Options, kind_of
from .records import find_value, summands, text_column, whole_characters
from .sources import Origin, PlacedRow, Source, origins

DEFAULT = Options()


@dataclass(frozen=True)
class Corpus:
    """The text that was asked for."""

    name: str  # as a person named it
    documents: Texts  # none of them empty, in the order of the files
    files: int = 0  # how many they come from; 0: built in
    left_out: int = 0  # empty documents, which are not among them
    unkept: int = 0  # rows that `where` leaves out
    notes: tuple[str, ...] = ()  # what a person is told of how it was read


def read_corpus(data: Source | Sequence[Source], column: str | None = None, **reading: Any) -> Corpus:
    """The documents of what `sources` knows (a built-in set, a file, a folder, a pattern, ...), or of a list of such;
    for `reading` see `Options`. Raises DataError for what is missing, empty or broken, with place and remedy."""
    sources: list[Source] = several(data)
    if not sources:
        raise DataError(f"no data is named; name a file, a folder, a pattern or one of: {', '.join(built_in_names())}")
    how = Options(**reading)
    documents = DocumentsAside()
    files, unkept = 0, Counter[str]()
    notes: list[str] = []
    for origin in itertools.chain.from_iterable(origins(source, how.file_format, texts=True) for source in sources):
        for document in documents_of(origin, column, how, unkept):
            documents.add(document)
        files += "file_format" in origin.takes
        notes += origin.notes
    name, contents = ", ".join(map(str, sources)), documents.whole()
    kept = [content for content in contents if any(piece.strip() for piece in pieces_of(content))]
    if not kept and unkept:
        raise DataError(f"none of its {unkept.total():,} rows fulfills: {reading['where']}", path=name)
    if not kept:
        why = f" ({'; '.join(notes[:3])})" if notes else ""
        raise DataError(f"holds no text: every document in it is empty{why}", path=name)
    return Corpus(name, Texts(kept), files, len(contents) - len(kept), unkept.total(), tuple(notes))


def documents_of(
    origin: Origin, column: str | None = None, how: Options = DEFAULT, unkept: Counter[str] | None = None
) -> Iterator[str | Content]:
    """The texts of rows, one by one, so that no second copy of a large file is held: one column of each. A list of
    texts is joined by spaces; null is an empty document. `unkept` counts the rows that `where` leaves out. Raises
    DataError with the place."""
    how = replace(how, quoted=how.quoted if origin.table else None)
    origin.check(how, images=False)
    wanted: str | int = "text"
    options = how.of(() if column is None else (column,))
    if origin.columns:
        wanted, header = column_of_text(origin, column, how)
        options = replace(how.of(summands(wanted)), header=header)
    for place, row in origin.read(options):
        if not how.keep(row, place):
            if unkept is not None:
                unkept[origin.name] += 1
            continue
        value = row[str(wanted)] if str(wanted) in row else find_value(row, wanted, place)
        if isinstance(value, (list, tuple)) and all(isinstance(part, str) or part is None for part in value):
            value = " ".join(part or "" for part in value)
        if value is None or isinstance(value, memoryview):
            yield value or ""
        elif isinstance(value, str):
            yield whole_characters(value, str(wanted), place)
        else:
            raise DataError(f"{place}: {wanted!r} is {kind_of(value)}; expected a string")


def column_of_text(origin: Origin, column: str | None, how: Options = DEFAULT) -> tuple[str | int, bool | None]:
    """Which column holds the text: the one asked for ("title + body": both, joined by a blank), else "text", else the
    only one of strings; and whether a table's first row names the columns, as it does unless `column` is a number.
    Raises DataError that lists the columns; and where nothing says whether the first row names them."""
    rows = origin.read(replace(how, header=False))
    place, first = next(rows, (origin.name, {}))
    if not first:
        raise DataError("is empty; expected rows", path=origin.name)
    names = list(map(str, first.values() if origin.table else first))
    if column is not None and column not in names:
        wanted = int(column) if column.isdecimal() else column
        numbered = all(isinstance(part, int) for part in summands(wanted))
        find_value(first if numbered or not origin.table else dict.fromkeys(names, ""), wanted, place)
        return wanted, not numbered if origin.table else None
    if column is not None or "text" in names:
        return "text" if column is None else column, origin.table or None
    strings = _strings(rows, first, origin.table)
    name = text_column(names, [names[index] for index in strings], origin.name)
    (index,) = strings
    # A column of numbers under something else has a name.
    numbers_named = any(number != index and not _is_number(each) for number, each in enumerate(names))
    if origin.table and not names_columns(names) and not numbers_named:
        raise DataError(
            f"{place}: does the first row name the columns? If so: column: {name}; if it is a row like the"
            f" others: column: {index + 1}"
        )
    return name, origin.table or None


def _strings(rest: Iterator[PlacedRow], first: Mapping[str, object], table: bool) -> set[int]:
    """Which columns hold texts: of a table, those with a field below the first row that is no number; of other rows,
    those of the first row that has any."""
    if not table:
        rows = itertools.chain([first], (row for _, row in itertools.islice(rest, 1000)))
        texts = ({i for i, name in enumerate(first) if isinstance(row.get(name), str)} for row in rows)
        return next(filter(None, texts), set())
    strings: set[int] = set()
    for _, row in rest:
        strings.update(i for i, value in enumerate(row.values()) if i not in strings and not _is_number(value))
        if len(strings) == len(first):
            break
    return strings


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text
    return True
