"""JSON: a document a line, or a document an entry of one list; each an object with a column of text, or a string."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..format import as_text, choose_column, formats, lines_in, whole_characters


@formats.register("jsonl")
@formats.register("ndjson")
def read_jsonl(path: Path, content: bytes, column: str | None) -> Iterator[str]:
    """A document for each line that is not blank; a null is an empty document.

    Raises DataError with the line for broken JSON, another kind of value, or an object without the column.
    """
    return documents_of(_rows(path, content), column, path)


@formats.register("json")
def read_json(path: Path, content: bytes, column: str | None) -> Iterator[str]:
    """A document for each entry of a list; a null is an empty document. Errors as with lines."""
    rows = parsed(as_text(path, content), path)
    if not isinstance(rows, list):
        raise DataError(f"is {_kind(rows)}; expected a list of objects, or lines of them in a .jsonl file", path=path)
    return documents_of(((f"entry {number}: ", None, row) for number, row in enumerate(rows, 1)), column, path)


Row = tuple[str, int | None, Any]
"""Where it stands in words, its line, its value."""


def _rows(path: Path, content: bytes) -> Iterator[Row]:
    for line, row in lines_in(path, content):
        if row.strip():
            yield "", line, parsed(row.removesuffix("\n"), path, line)


def documents_of(rows: Iterable[Row], column: str | None, path: Path) -> Iterator[str]:
    """The texts of rows: strings, nulls, or objects that hold one in the column, or a list that spaces join."""
    chosen = None
    for where, line, row in rows:
        if isinstance(row, dict):
            if chosen is None:
                chosen = choose_column(list(row), [key for key, v in row.items() if isinstance(v, str)], column, path)
            if chosen not in row:
                listed = ", ".join(row) or "nothing"
                raise DataError(f"{where}has no {chosen!r} here; it has: {listed}", path=path, line=line)
            row = row[chosen]
            if isinstance(row, list) and all(isinstance(one, str) for one in row):
                row = " ".join(row)
        if row is not None and not isinstance(row, str):
            what = repr(chosen) if chosen is not None else "the line" if line else "it"
            raise DataError(f"{where}{what} is {_kind(row)}; expected a string", path=path, line=line)
        yield whole_characters(row or "", path, line)


def parsed(text: str, path: Path, line: int | None = None) -> Any:
    """The value of a JSON text. `line` is where it stands in the file, if it is one line of it."""
    try:
        return json.loads(text)
    except RecursionError:
        raise DataError("is nested too deeply", path=path, line=line) from None
    except json.JSONDecodeError as error:
        said = f"broken JSON at column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
        raise DataError(
            said + ("; expected an object on each line" if line else ""), path=path, line=line or error.lineno
        ) from None
    except ValueError as error:  # a number of thousands of digits
        raise DataError(f"broken JSON: {error}", path=path, line=line) from None


def _kind(value: Any) -> str:
    names = {list: "a list", dict: "an object", bool: "true or false", str: "a string", type(None): "null"}
    return names.get(type(value), f"the number {value!r}"[:40])
