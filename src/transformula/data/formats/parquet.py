"""Parquet, a document a row; needs the extra `parquet`."""

from __future__ import annotations

from pathlib import Path

from ...errors import DataError
from ...extras import need
from ..format import choose_column, formats, whole_characters


@formats.register("parquet")
def read_parquet(path: Path, content: bytes, column: str | None) -> list[str]:
    """A document for each row; a null is an empty document. Only the column of the text is read.

    Raises DataError for a file that is not parquet or a column that holds no strings, MissingExtra without pyarrow.
    """
    arrow = need("pyarrow", "reading parquet")
    parquet = need("pyarrow.parquet", "reading parquet")
    try:
        table = parquet.ParquetFile(arrow.BufferReader(content))
        fields = list(table.schema_arrow)
        strings = [f.name for f in fields if arrow.types.is_string(f.type) or arrow.types.is_large_string(f.type)]
        chosen = choose_column([f.name for f in fields], strings, column, path)
        if chosen not in strings:
            held = next(str(f.type) for f in fields if f.name == chosen)
            raise DataError(
                f"the column {chosen!r} holds {held}; expected strings, as in: {', '.join(strings) or 'none here'}",
                path=path,
            )
        values = table.read(columns=[chosen])[chosen].to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"is not a whole parquet file ({str(error)[:120]}); copy it again", path=path) from None
    return [whole_characters(value or "", path) for value in values]
