"""Tables as text, a row a line: comma-separated values with quotes, tab-separated values without."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ..format import Options, Row, formats, same_name
from ..lines import lines_of, shown

LONGEST = 2**31 - 1  # characters of a field, at most


@formats.register("csv", takes=("header", "quoted", "encoding"))
def read_csv(path: Path, options: Options) -> Iterator[Row]:
    """Comma-separated; a field in quotes may hold commas, doubled quotes and line ends (which become \\n)."""
    return table(path, options, ",", True if options.quoted is None else options.quoted)


@formats.register("tsv", takes=("header", "quoted", "encoding"))
def read_tsv(path: Path, options: Options) -> Iterator[Row]:
    """Tab-separated; quotes are text like any other by default, as sentences hold them unpaired."""
    return table(path, options, "\t", bool(options.quoted))


def table(path: Path, options: Options, delimiter: str, quoted: bool) -> Iterator[Row]:
    """The rows below the first, which names the columns; all rows where these are asked for by number."""
    names: list[str] | None = None
    for line, text, row in fields_of(path, delimiter, quoted, options.encoding):
        if names is None:
            by_number = options.columns and all(isinstance(column, int) for column in options.columns)
            names = row if options.header and not by_number else [str(number) for number in range(1, len(row) + 1)]
            if same := same_name(names):
                raise DataError(f"{same}; give one of them another name: {shown(text)}", path=path, line=line)
            if options.header:
                continue
        if len(row) != len(names):
            remedy = "quotes inside a field are doubled" if quoted else "no field may hold a tab, or say quoted: true"
            message = f"has {len(row)} fields here, and {len(names)} in its first row; {remedy}: {shown(text)}"
            raise DataError(message, path=path, line=line)
        yield line, dict(zip(names, row, strict=True))


def fields_of(
    path: Path, delimiter: str, quoted: bool, encoding: str | None = None
) -> Iterator[tuple[int, str, list[str]]]:
    """(line on which it begins, its text there, fields) of rows that are not empty."""
    lines = lines_of(path, encoding)
    for line, text in lines:
        if not text:
            continue
        if not quoted or '"' not in text:
            yield line, text, text.split(delimiter)
            continue
        # The reader would end a row at a lone \r; no line holds a zero, which stands for it meanwhile.
        rest = (each.replace("\r", "\0") + "\n" for each in itertools.chain([text], (more for _, more in lines)))
        before = csv.field_size_limit(LONGEST)
        try:
            row = next(csv.reader(rest, delimiter=delimiter, strict=True))
        except csv.Error as error:
            reason = "a quote is opened and never closed" if "unexpected end" in str(error) else str(error)
            message = f"broken table: {reason}; quotes inside a field are doubled: {shown(text)}"
            raise DataError(message, path=path, line=line) from None
        finally:
            csv.field_size_limit(before)
        yield line, text, [field.replace("\0", "\r") for field in row]
