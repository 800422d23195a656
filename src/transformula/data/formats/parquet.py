"""Parquet, read a few rows at a time and only the columns asked for; needs the extra `parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ...extras import need
from ..format import Options, Row, formats, same_name
from ..lines import PACKED, opened, whole_file


@formats.register("parquet", takes=("join",), needs=["pyarrow"])
def read_parquet(path: Path, options: Options) -> Iterator[Row]:
    """The rows, numbered in place of lines. Raises DataError for a damaged file, MissingExtra without pyarrow."""
    arrow, parquet = need("pyarrow", "reading parquet"), need("pyarrow.parquet", "reading parquet")
    number = 0
    with opened(path):  # what cannot be opened gives the error that every other file gives
        pass
    try:
        file = parquet.ParquetFile(arrow.BufferReader(whole_file(path)) if path.suffix.lower() in PACKED else path)
        names = list(file.schema_arrow.names)
        if same := same_name(names):
            raise DataError(f"{same}; give one of them another name", path=path)
        wanted = [str(column) for column in options.columns]
        heads = {head for name in (*wanted, *options.also) for head in (name, name.split(".")[0])}
        # A column by number, or one that is not there, needs all of them: to count, and to list them in the error.
        known = wanted and all(name in names or name.split(".")[0] in names for name in wanted)
        columns = [name for name in names if name in heads] if known else names
        for batch in file.iter_batches(batch_size=1024, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except DataError:
        raise
    except Exception as error:  # damaged files, and values that Python has nothing for, raise many kinds
        raise DataError(
            f"is not a whole parquet file ({str(error)[:120]}); copy it again", path=path, line=number + 1
        ) from None
