"""JSON: a row a line, or a row an entry of one list; each an object with columns by name, or a text alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..format import BadRow, Options, Row, formats, kind_of, place_of
from ..lines import BadLine, excerpt, lines_of, skip_or_raise, utf8_of
from .squad import squad_rows
from .vqa import is_vqa, vqa_rows


@formats.register("jsonl", takes=("join", "encoding", "start"))
@formats.register("ndjson", takes=("join", "encoding", "start"))
def read_jsonl(path: Path, options: Options) -> Iterator[Row]:
    """A row for each line that is not blank. Raises DataError with the line: broken JSON, another kind of value."""
    lines = lines_of(path, options.encoding, options.bad_rows)
    rows = ((line, text) for line, text in lines if isinstance(text, BadLine) or text.strip())
    for line, text in itertools.islice(rows, options.start, None):
        if isinstance(text, BadLine):
            yield line, BadRow(text.error)
            continue
        try:
            row = as_row(parse_value(text, path, line), place_of(path, line))
        except DataError as error:
            row = BadRow(skip_or_raise(DataError(f"{error}: {excerpt(text)}"), options.bad_rows))
        yield line, row


@formats.register("json", takes=("join", "encoding"))
def read_json(path: Path, options: Options) -> Iterator[Row]:
    """A row for each entry of a list, or each question of an object that is a file of SQuAD or VQA; or for each line,
    of a file that is one of lines in spite of its name. Errors as with lines."""
    text = str(utf8_of(path, options.encoding), "utf-8")
    if is_lines(text):
        yield from read_jsonl(path, options)
        return
    rows = parse_value(text, path)
    if isinstance(rows, dict) and "data" in rows:
        yield from squad_rows(rows, path)
        return
    if is_vqa(rows):
        read = lambda other: parse_value(str(utf8_of(other, options.encoding), "utf-8"), other)  # noqa: E731
        yield from vqa_rows(rows, path, read, options.met)
        return
    if not isinstance(rows, list):
        raise DataError(
            f"is {kind_of(rows)}; expected a list of objects, or lines of them in a .jsonl file; or, as SQuAD"
            " has it, an object with `data`, or, as VQA has it, one with `questions`",
            path=path,
        )
    for number, value in enumerate(rows, 1):
        entry = f"entry {number}"
        try:
            yield entry, as_row(value, place_of(path, entry))
        except DataError as error:
            yield entry, BadRow(skip_or_raise(error, options.bad_rows))


def is_lines(text: str) -> bool:
    """Whether the first line that is not blank is a whole object or string, and more follows it."""
    first, _, rest = text.lstrip().partition("\n")
    try:
        return first[:1] in ("{", '"') and bool(rest.strip()) and isinstance(json.loads(first), (dict, str))
    except (ValueError, RecursionError):
        return False


def as_row(value: Any, place: str) -> Mapping[str, Any]:
    """The columns of an object; a text alone, or null, is the column `text`."""
    if isinstance(value, dict):
        return value
    if value is None or isinstance(value, str):
        return {"text": value}
    raise DataError(f"{place}: the row is {kind_of(value)}; expected an object with columns by name, or a string")


def parse_value(text: str, path: Path, line: int | None = None) -> Any:
    """The value of a JSON text. `line` is where it stands in the file, if it is one line of it."""
    try:
        return json.loads(text)
    except RecursionError:
        message = "is nested too deeply"
    except json.JSONDecodeError as error:
        message = f"broken JSON at column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
        message += "; expected an object on each line" if line else ""
        line = line or error.lineno
    except ValueError as error:  # a number of thousands of digits
        message = f"broken JSON: {error}"
    raise DataError(message, path=path, line=line)
