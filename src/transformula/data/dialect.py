"""What parts the columns of a table that is text, and whether its fields may stand in quotes: as it is named, or as the
first rows say."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ConfigError, DataError, setting
from .column_names import names_columns
from .lines import BadLine, BadRows, excerpt, lines_of

MAX_FIELD_CHARACTERS = 2**31 - 1
SAMPLED_ROWS = 20  # rows by which the columns' separator is found
BLANKS, FIRST_BLANK = "blanks", "first-blank"
NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SIGN_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
CANDIDATE_SIGNS = ("\t", ";", "|", " | ", " ||| ", ",")  # what is looked for


def delimiter_of(name: str | None) -> str | None:
    """The separator of that name: "," of comma; any other text stands for itself. Raises ConfigError for what can part
    no columns."""
    if name is None:
        return None
    sign = NAMES.get(name, name.replace("\\t", "\t"))
    if not sign or set(sign) & set('"\r\n\0'):
        expected = ", ".join([*NAMES, BLANKS, FIRST_BLANK])
        raise ConfigError(f"delimiter: {name!r} parts no columns; expected {expected}, or a text such as ' | '")
    return sign


@dataclass(frozen=True)
class Dialect:
    """How a line becomes fields.

    delimiter  the text between two of them; or `BLANKS`, any number of blanks and tabs; or `FIRST_BLANK`: the first
               word is one field, and the rest of the line the other
    quoted     fields may stand in quotes, and then hold the delimiter, doubled quotes and line ends
    """

    delimiter: str
    quoted: bool

    def __str__(self) -> str:
        named = self.delimiter in (BLANKS, FIRST_BLANK)
        by = self.delimiter if named else SIGN_NAMES.get(self.delimiter, repr(self.delimiter))
        quotes = "" if self.quoted or named else ", quotes are text"
        return f"columns are parted by {by.replace('first-', 'the first ')}{quotes}"

    def split(self, text: str) -> list[str]:
        """The fields of a line without quotes."""
        if self.delimiter == BLANKS:
            return re.split("[ \t]+", text.strip(" \t"))
        if self.delimiter == FIRST_BLANK:
            return re.split("[ \t]+", text.strip(" \t"), maxsplit=1)
        return text.split(self.delimiter)


def row_alone(text: str, dialect: Dialect) -> list[str] | None:
    """The fields of a row with quotes that ends with its line, as nearly all do; None of another, or of one of those
    that need more care."""
    if "\r" in text:
        return None
    try:
        return next(csv.reader((text,), delimiter=dialect.delimiter, strict=True))
    except csv.Error:  # it goes on in the next line, is broken, or has a field beyond the limit of all programs
        return None


def line_or_error(line: str) -> str:
    """A line within quotes. Raises the error of one that could not be read: where the row ends is not known."""
    if isinstance(line, BadLine):
        raise line.error
    return line


def fields_of(
    path: Path, dialect: Dialect, encoding: str | None = None, bad_rows: BadRows = None
) -> Iterator[tuple[int, str, list[str]]]:
    """(line on which it begins, its text there, fields) of rows that are not empty, and of lines that are bad."""
    lines = lines_of(path, encoding, bad_rows)
    for line, text in lines:
        if isinstance(text, BadLine):
            yield line, text, []
        if not text:
            continue
        if not dialect.quoted or '"' not in text:
            yield line, text, dialect.split(text)
            continue
        if (alone := row_alone(text, dialect)) is not None:
            yield line, text, alone
            continue
        # The reader would end a row at a lone \r; no line holds a zero, which stands for it meanwhile.
        raw = map(line_or_error, itertools.chain([text], (more for _, more in lines)))
        rest = (each.replace("\r", "\0") + "\n" for each in raw)
        before = csv.field_size_limit(MAX_FIELD_CHARACTERS)
        try:
            row = next(csv.reader(rest, delimiter=dialect.delimiter, strict=True))
        except csv.Error as error:
            reason = "a quote is opened and never closed" if "unexpected end" in str(error) else str(error)
            message = f"broken table: {reason}; quotes inside a field are doubled; if quotes are text like any"
            message += f" other, say {setting('quoted', no=True)}: {excerpt(text)}"
            raise DataError(message, path=path, line=line) from None
        finally:
            csv.field_size_limit(before)
        yield line, text, [field.replace("\0", "\r") for field in row]


def dialect_of(
    path: Path, own: Dialect | None, delimiter: str | None, quoted: bool | None, encoding: str | None
) -> Dialect:
    """The dialect of a table: as it is named, else its format's `own` if that parts its first rows, else the only one
    that does. Raises DataError where a file has no format of its own and nothing parts its rows; ConfigError for
    fields in quotes between delimiters of several signs."""
    if delimiter is not None:
        one = len(delimiter) == 1
        if quoted and not one:
            raise ConfigError("quoted: fields stand in quotes only where one sign parts them; leave it out")
        return Dialect(delimiter, one and (quoted if quoted is not None else own is None or own.quoted))
    if own is not None:
        own = own if quoted is None else replace(own, quoted=quoted)
        widths = [len(row) for row in first_rows(path, own, encoding) or [[]]]
        if len(set(widths)) == 1 and widths[0] > 1:
            return own
    candidates = (fitting_dialect(path, sign, own, quoted, encoding) for sign in CANDIDATE_SIGNS)
    dialects = [dialect for dialect in candidates if dialect is not None]
    if len(dialects) == 1:
        return dialects[0]
    if own is not None:
        return own
    first = [text for _, text in itertools.islice(lines_of(path, encoding), SAMPLED_ROWS)]
    known = ", ".join([*NAMES, BLANKS, FIRST_BLANK])
    raise DataError(
        f"its ending {path.suffix} is no format with columns, and no tab, semicolon, pipe or comma parts all of its"
        f" first rows; say what does with {setting('delimiter', 'NAME')}, of {known}"
        f" (a word, and a text after it), or how it is read with {setting('file_format', 'tsv')}: {excerpt(first[0])}",
        path=path,
        line=1,
    )


def fitting_dialect(
    path: Path, sign: str, own: Dialect | None, quoted: bool | None, encoding: str | None
) -> Dialect | None:
    """The dialect of a sign that plainly parts the first rows; None where a text may hold it as well: the rows have
    unlike numbers of fields, or blanks beside the sign, or are too few and name no columns. Of commas the first row
    must name columns, unless they are the format's own."""
    if own is not None and sign == own.delimiter:
        return None
    usual = quoted if quoted is not None else own is None or own.quoted
    for with_quotes in dict.fromkeys((usual, usual if quoted is not None else False)):
        dialect = Dialect(sign, with_quotes and len(sign) == 1)
        rows = first_rows(path, dialect, encoding)
        if rows is None:
            continue
        fewest, most = min(map(len, rows)), max(map(len, rows))
        if fewest < 2 or (fewest < most and sign != "\t"):
            return None
        inner = itertools.chain.from_iterable(zip(row[1:], row[:-1], strict=True) for row in rows)
        if sign != "\t" and any(after[:1].isspace() or before[-1:].isspace() for after, before in inner):
            return None
        return dialect if names_columns(rows[0]) or (len(rows) > 2 and sign != ",") else None
    return None


def first_rows(path: Path, dialect: Dialect, encoding: str | None) -> Sequence[list[str]] | None:
    """The fields of the first rows; None where they cannot be read in this dialect, or there are none."""
    try:
        return [row for _, _, row in itertools.islice(fields_of(path, dialect, encoding), SAMPLED_ROWS)] or None
    except DataError:
        return None
