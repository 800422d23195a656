"""Tables as text: comma- and tab-separated values, a document a row."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ..column_names import names_columns
from ..format import as_utf8, choose_column, formats

_LONGEST = 2**31 - 1
"""A field may be a whole document; Python's own limit is 131,072 characters."""


@formats.register("csv")
def read_csv(path: Path, content: bytes, column: str | None) -> Iterator[str]:
    """Comma-separated, quoted by ", with a line of names first; see `read_table`."""
    return read_table(path, content, column, ",")


@formats.register("tsv")
def read_tsv(path: Path, content: bytes, column: str | None) -> Iterator[str]:
    """Tab-separated, quoted by ", with a line of names first; see `read_table`."""
    return read_table(path, content, column, "\t")


def read_table(path: Path, content: bytes, column: str | None, delimiter: str) -> Iterator[str]:
    """A document for each row. The first row names the columns, unless `column` is a number.

    With `column: 3` there is no row of names, and the text stands in the third column.
    Raises DataError with the line for a row of another length than the first, or a broken quotation; and where nothing
    says whether the first row names the columns.
    """
    as_utf8(path, content)
    rows = _rows(path, content, delimiter)
    line, first = next(rows, (0, []))
    if not first:
        raise DataError("is empty; expected rows", path=path)
    rest = _equal(rows, len(first), path)
    if column is not None and column.isdecimal() and column not in first:
        index = int(column) - 1
        if not 0 <= index < len(first):
            raise DataError(f"has no column number {column}: its rows have {len(first)}", path=path, line=line)
        yield first[index]
    elif (column or "text") in first:
        index = first.index(column or "text")
    else:
        strings = _strings(rest, len(first))
        index = first.index(choose_column(first, [first[i] for i in strings], column, path))
        # A column of numbers under something else has a name.
        if not names_columns(first) and all(i in strings or _number(first[i]) for i in range(len(first))):
            raise DataError(
                f"does the first row name the columns? If so: column: {first[index]}; if it is a row like the others:"
                f" column: {index + 1}",
                path=path,
                line=line,
            )
        rest = _equal(itertools.islice(_rows(path, content, delimiter), 1, None), len(first), path)
    for row in rest:
        yield row[index]


def _strings(rows: Iterator[list[str]], columns: int) -> list[int]:
    """Which columns hold something else than numbers."""
    found: set[int] = set()
    for row in rows:
        found.update(i for i in range(columns) if i not in found and not _number(row[i]))
    return sorted(found)


def _rows(path: Path, content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with the lines on which they end."""
    before = csv.field_size_limit(_LONGEST)
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(
            f"broken table: {error}; quotes inside a field are doubled", path=path, line=reader.line_num
        ) from None
    finally:
        csv.field_size_limit(before)


def _equal(rows: Iterator[tuple[int, list[str]]], length: int, path: Path) -> Iterator[list[str]]:
    for line, row in rows:
        if len(row) != length:
            raise DataError(f"has {len(row)} fields here, and {length} in its first row", path=path, line=line)
        yield row


def _number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return not field
    return True
