"""Tables as text: comma- and tab-separated values, a document a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ..format import as_text, choose_column, formats

_LONGEST = 2**31 - 1
"""A field may be a whole document; Python's own limit is 131,072 characters."""


@formats.register("csv")
def read_csv(path: Path, content: bytes, column: str | None) -> list[str]:
    """Comma-separated, quoted by ", with a line of names first; see `read_table`."""
    return read_table(path, content, column, ",")


@formats.register("tsv")
def read_tsv(path: Path, content: bytes, column: str | None) -> list[str]:
    """Tab-separated, quoted by ", with a line of names first; see `read_table`."""
    return read_table(path, content, column, "\t")


def read_table(path: Path, content: bytes, column: str | None, delimiter: str) -> list[str]:
    """A document for each row. The first row names the columns, unless `column` is a number.

    With `column: 3` there is no row of names, and the text stands in the third column.
    Raises DataError with the line for a row of another length than the first, or a broken quotation.
    """
    rows = _rows(path, content, delimiter)
    line, first = next(rows)
    if column is not None and column.isdecimal() and column not in first:
        index = int(column) - 1
        if not 0 <= index < len(first):
            raise DataError(f"has no column number {column}: its rows have {len(first)}", path=path, line=line)
        return [row[index] for row in (first, *_equal(rows, len(first), path))]
    body = list(_equal(rows, len(first), path))
    strings = [name for i, name in enumerate(first) if any(not _number(row[i]) for row in body)]
    index = first.index(choose_column(first, strings, column, path))
    return [row[index] for row in body]


def _rows(path: Path, content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with the lines on which they end."""
    before = csv.field_size_limit(_LONGEST)
    reader = csv.reader(io.StringIO(as_text(path, content), newline=""), delimiter=delimiter, strict=True)
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
