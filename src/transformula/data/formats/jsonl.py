"""JSON lines: a document a line, an object with a column of text, or a string."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..format import as_text, choose_column, formats, whole_characters


@formats.register("jsonl")
@formats.register("ndjson")
def read_jsonl(path: Path, content: bytes, column: str | None) -> list[str]:
    """A document for each line that is not blank; a null is an empty document.

    Raises DataError with the line for broken JSON, another kind of value, or an object without the column.
    """
    documents: list[str] = []
    chosen = None
    for line, text in enumerate(as_text(path, content).split("\n"), 1):
        if not text.strip():
            continue
        row = _value(text, path, line)
        if isinstance(row, dict):
            if chosen is None:
                chosen = choose_column(list(row), [key for key, v in row.items() if isinstance(v, str)], column, path)
            if chosen not in row:
                raise DataError(f"has no {chosen!r} here; it has: {', '.join(row) or 'nothing'}", path=path, line=line)
            row = row[chosen]
        if row is not None and not isinstance(row, str):
            where = "the line" if chosen is None else f"{chosen!r}"
            raise DataError(f"{where} is {_kind(row)}; expected a string", path=path, line=line)
        documents.append(whole_characters(row or "", path, line))
    return documents


def _value(text: str, path: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise DataError("is nested too deeply", path=path, line=line) from None
    except ValueError as error:
        said = getattr(error, "msg", str(error))
        at = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(
            f"broken JSON{at}: {said[:1].lower()}{said[1:]}; expected an object on each line", path=path, line=line
        ) from None


def _kind(value: Any) -> str:
    names = {list: "a list", dict: "an object", bool: "true or false"}
    return names.get(type(value), f"the number {value!r}"[:40])
