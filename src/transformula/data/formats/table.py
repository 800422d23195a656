"""Tables as text, a row a line: comma-separated values with quotes, tab-separated values without."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..format import Options, Row, formats
from ..lines import lines_of, shown

_LONGEST = 2**31 - 1


@formats.register("csv", takes=("header", "quoted"))
def read_csv(path: Path, options: Options) -> Iterator[Row]:
    """Comma-separated; a field in quotes may hold commas, doubled quotes and line ends (which become \\n)."""
    return _table(path, options, ",", True if options.quoted is None else options.quoted)


@formats.register("tsv", takes=("header", "quoted"))
def read_tsv(path: Path, options: Options) -> Iterator[Row]:
    """Tab-separated; quotes are text like any other by default, as sentences hold them unpaired."""
    return _table(path, options, "\t", bool(options.quoted))


def _table(path: Path, options: Options, delimiter: str, quoted: bool) -> Iterator[Row]:
    names: list[str] | None = None
    for line, text, row in _quoted(path, delimiter) if quoted else _plain(path, delimiter):
        if names is None:
            by_number = options.columns and all(isinstance(column, int) for column in options.columns)
            named = options.header and not by_number
            names = row if named else [str(number) for number in range(1, len(row) + 1)]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise DataError(
                    f"two columns are called {twice!r}; name columns by number, with header: true: {shown(text)}",
                    path=path,
                    line=line,
                )
            if options.header:
                continue
        if len(row) != len(names):
            remedy = "quotes inside a field are doubled" if quoted else "no field may hold a tab, or say quoted: true"
            raise DataError(
                f"has {len(row)} fields here, and {len(names)} in its first row; {remedy}: {shown(text)}",
                path=path,
                line=line,
            )
        yield line, dict(zip(names, row, strict=True))


def _plain(path: Path, delimiter: str) -> Iterator[tuple[int, str, list[str]]]:
    """(line, text, fields) of lines that are not empty, cut at each delimiter."""
    for line, text in lines_of(path):
        if text:
            yield line, text, text.split(delimiter)


def _quoted(path: Path, delimiter: str) -> Iterator[tuple[int, str, list[str]]]:
    """(line on which it begins, its text there, fields) of rows that are not empty."""
    lines = lines_of(path)
    for line, text in lines:
        if not text:
            continue
        if '"' not in text:
            yield line, text, text.split(delimiter)
            continue
        before = csv.field_size_limit(_LONGEST)
        try:
            # The reader would end a row at a lone \r; no line holds a zero, which stands for it meanwhile.
            reader: Any = csv.reader(_rest(text, lines), delimiter=delimiter, strict=True)
            row = next(reader)
        except csv.Error as error:
            said = "a quote is opened and never closed" if "unexpected end" in str(error) else str(error)
            raise DataError(
                f"broken table: {said}; quotes inside a field are doubled: {shown(text)}", path=path, line=line
            ) from None
        finally:
            csv.field_size_limit(before)
        yield line, text, [field.replace("\0", "\r") for field in row]


def _rest(text: str, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """A line, and those that follow it, as far as the reader asks for them."""
    yield text.replace("\r", "\0") + "\n"
    for _, more in lines:
        yield more.replace("\r", "\0") + "\n"
