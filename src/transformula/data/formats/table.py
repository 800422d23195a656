"""Tables, a row a line: as text, comma-separated values with quotes or tab-separated ones without; and sheets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ...errors import DataError, setting
from ..dialect import FIRST_BLANK, Dialect, dialect_of, fields_of
from ..format import BadRow, Options, Row, duplicate_name, formats
from ..lines import BadLine, excerpt, skip_or_raise

TAKES = ("header", "quoted", "delimiter", "ragged", "encoding")


@formats.register("csv", takes=TAKES)
def read_csv(path: Path, options: Options) -> Iterator[Row]:
    """Comma-separated; a field in quotes may hold commas, doubled quotes and line ends (which become \\n). Another sign
    that parts the first rows, where commas do not, is found: see `dialect_of`."""
    return text_table(path, options, Dialect(",", True))


@formats.register("tsv", takes=TAKES)
def read_tsv(path: Path, options: Options) -> Iterator[Row]:
    """Tab-separated; quotes are text like any other by default, as sentences hold them unpaired. Another sign is found
    as in `read_csv`."""
    return text_table(path, options, Dialect("\t", False))


def read_unnamed(path: Path, options: Options) -> Iterator[Row]:
    """The table in a file whose name does not say what parts its columns, such as a .txt file. Raises DataError where
    nothing parts its first rows."""
    return text_table(path, options, None)


def text_table(path: Path, options: Options, own: Dialect | None) -> Iterator[Row]:
    """The rows of a table that is text; `own` is how its format parts columns."""
    dialect = dialect_of(path, own, options.delimiter, options.quoted, options.encoding)
    if own is None or dialect.delimiter != own.delimiter:
        options.met[f"{dialect}"] = 1
    return table(path, options, fields_of(path, dialect, options.encoding, options.bad_rows), hint_of(dialect, options))


def hint_of(dialect: Dialect, options: Options) -> str:
    """What may be wrong with a row of another length."""
    if dialect.delimiter == FIRST_BLANK:
        return "a word, and a text after it, are expected"
    hint = "quotes inside a field are doubled"
    if not dialect.quoted:
        hint = f"no field may hold {'a tab' if dialect.delimiter == chr(9) else repr(dialect.delimiter)}"
        hint += ", or say quoted: true" if len(dialect.delimiter) == 1 else ""
    other = "" if options.delimiter else f"; if another sign parts them, name it: {setting('delimiter', 'NAME')}"
    return hint + other


def table(path: Path, options: Options, rows: Iterable[tuple[int, str, list[str]]], hint: str = "") -> Iterator[Row]:
    """The rows below the first, which names the columns; all rows where these are asked for by number. `rows` are
    (line, its text, fields). Raises DataError for two columns of one name; and for a row of more or fewer fields, with
    a `hint`, unless `options.ragged` takes it."""
    names: list[str] | None = None
    for line, text, row in rows:
        if isinstance(text, BadLine):
            if names is None:
                raise text.error
            yield line, BadRow(text.error)
            continue
        if names is None:
            by_number = options.columns and all(isinstance(column, int) for column in options.columns)
            names = row if options.header and not by_number else [str(number) for number in range(1, len(row) + 1)]
            if same := duplicate_name(names):
                raise DataError(f"{same}; give one of them another name: {excerpt(text)}", path=path, line=line)
            if options.header:
                continue
        if len(row) != len(names):
            fitted = fitted_row(row, len(names), options)
            if fitted is None and options.ragged != "skip":
                ways = [setting("ragged", way) for way in ("pad", "fit", "skip") if way != options.ragged]
                message = f"has {len(row)} fields here, and {len(names)} in its first row; {hint}{'; ' if hint else ''}"
                message += f"or say what becomes of such rows: {', '.join(ways[:-1])} or {ways[-1]}: {excerpt(text)}"
                yield line, BadRow(skip_or_raise(DataError(message, path=path, line=line), options.bad_rows))
                continue
            if fitted is None:
                options.met["left out: {n} rows of more or fewer fields than the first"] += 1
                continue
            row = fitted
        yield line, dict(zip(names, row, strict=True))


def fitted_row(row: list[str], width: int, options: Options) -> list[str] | None:
    """A row of another length at the width of the first, as `options.ragged` says; None where it does not fit."""
    if len(row) < width and options.ragged in ("pad", "fit"):
        options.met["{n} rows of fewer fields than the first are filled up with empty ones"] += 1
        return row + [""] * (width - len(row))
    if len(row) > width and options.ragged == "fit":
        options.met["left out: the further fields of {n} rows that have more than the first"] += 1
        return row[:width]
    return None
