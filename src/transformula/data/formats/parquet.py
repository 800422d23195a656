"""Parquet, a document a row; needs the extra `parquet`."""

from __future__ import annotations

from pathlib import Path

from ...errors import DataError
from ...extras import need
from ..format import choose_column, formats, whole_characters


@formats.register("parquet", needs=["pyarrow"])
def read_parquet(path: Path, content: bytes, column: str | None) -> list[str]:
    """A document for each row; a null is an empty document, a list of texts is joined by spaces. Only the column of the
    text is read.

    Raises DataError for a file that is not parquet or a column that holds no strings, MissingExtra without pyarrow.
    """
    arrow = need("pyarrow", "reading parquet")
    parquet = need("pyarrow.parquet", "reading parquet")
    try:
        table = parquet.ParquetFile(arrow.BufferReader(content))
        fields = list(table.schema_arrow)
        strings = [f.name for f in fields if arrow.types.is_string(f.type) or arrow.types.is_large_string(f.type)]
        chosen = choose_column([f.name for f in fields], strings, column, path)
        held = next(f.type for f in fields if f.name == chosen)
        listed = arrow.types.is_list(held) and arrow.types.is_string(held.value_type)
        if chosen not in strings and not listed:
            raise DataError(
                f"the column {chosen!r} holds {held}; expected strings, as in: {', '.join(strings) or 'none here'}",
                path=path,
            )
        values = table.read(columns=[chosen])[chosen].to_pylist()
    except DataError:
        raise
    except Exception as error:  # damaged files raise many kinds
        raise DataError(f"is not a whole parquet file ({str(error)[:120]}); copy it again", path=path) from None
    texts = [" ".join(part or "" for part in value) if isinstance(value, list) else value for value in values]
    return [whole_characters(text or "", path) for text in texts]
