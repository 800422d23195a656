"""Parquet, read a few rows at a time and only the columns and row groups asked for; needs the extra `parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError, InputError
from ...extras import need
from ..format import BadRow, Options, Row, duplicate_name, formats, without_null
from ..lines import PACKED, BadRows, check_regular, skip_or_raise, whole_file

ROWS_AT_ONCE = 256  # rows that are held together: a row group may have a million


@formats.register("parquet", takes=("join", "start"), needs=["pyarrow"])
def read_parquet(path: Path, options: Options) -> Iterator[Row]:
    """The rows, numbered in place of lines. Raises DataError for a damaged file, MissingExtra without pyarrow."""
    number = options.start
    try:
        file = opened_parquet(path)
        names = list(file.schema_arrow.names)
        if same := duplicate_name(names):
            raise DataError(f"{same}; give one of them another name", path=path)
        wanted = [str(column) for column in options.columns]
        heads = {head for name in (*wanted, *options.also) for head in (name, name.split(".")[0])}
        # A column by number, or one that is not there, needs all of them: to count, and to list them in the error.
        known = wanted and all(name in names or name.split(".")[0] in names for name in wanted)
        columns = [name for name in names if name in heads] if known else names
        groups, skipped = groups_from(file.metadata, options.start)
        with file:
            for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=columns, use_threads=False):
                for row in values_of(batch.slice(min(skipped, len(batch))), path, number, options.bad_rows):
                    number += 1
                    yield number, without_null(row) if options.sparse and not isinstance(row, BadRow) else row
                skipped = max(0, skipped - len(batch))
    except InputError:
        raise
    except Exception as error:  # damaged files raise many kinds
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"is not a whole parquet file ({reason}); copy it again", path=path, line=number + 1) from None


def values_of(batch: Any, path: Path, before: int, bad_rows: BadRows) -> list[Any]:
    """The rows of a batch, which come after `before` others. Raises DataError for one with a value that Python has
    nothing for, such as a text that is no UTF-8 or a day in the year 99,999; or a `BadRow` stands for it."""
    try:
        return list(batch.to_pylist())
    except Exception as error:
        if len(batch) == 1:
            reason = " ".join(str(error).split())[:120]
            wrong = DataError(f"a value of this row cannot be read ({reason})", path=path, line=before + 1)
            return [BadRow(skip_or_raise(wrong, bad_rows))]
    return [row for at in range(len(batch)) for row in values_of(batch.slice(at, 1), path, before + at, bad_rows)]


def opened_parquet(path: Path) -> Any:
    """A parquet file whose footer was read. Raises DataError where it is missing or empty."""
    arrow, parquet = need("pyarrow", "reading parquet"), need("pyarrow.parquet", "reading parquet")
    if check_regular(path) == 0:
        raise DataError("is empty; expected a parquet file: copy it again", path=path)
    file = arrow.BufferReader(whole_file(path)) if path.suffix.lower() in PACKED else path
    return parquet.ParquetFile(file, memory_map=False, pre_buffer=False, page_checksum_verification=True)


def groups_from(metadata: Any, start: int) -> tuple[list[int], int]:
    """The row groups of a parquet file from that of row `start` on, and how many rows of the first come before it."""
    for group in range(metadata.num_row_groups):
        if (rows := metadata.row_group(group).num_rows) > start:
            return list(range(group, metadata.num_row_groups)), start
        start -= rows
    return [], 0
