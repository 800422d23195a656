"""JSON: an object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ..formats.json_rows import parsed
from ..lines import lines_of, shown
from ..record_format import Options, Row, record_format


@record_format("jsonl", takes=("join",))
@record_format("ndjson", takes=("join",))
def read_jsonl(path: Path, options: Options) -> Iterator[Row]:
    """An object a line; blank lines are passed over."""
    for line, text in lines_of(path):
        if not text.strip():
            continue
        try:
            row = parsed(text, path, line)
        except DataError as error:
            raise DataError(f"{error}: {shown(text)}") from None
        if not isinstance(row, dict):
            raise DataError(f"expected an object with columns by name: {shown(text)}", path=path, line=line)
        yield line, row
