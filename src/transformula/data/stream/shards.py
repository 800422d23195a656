"""Shards: the parts that data larger than memory comes in, read row by row, from any row on.

A source of shards is a class with two things: the `names` of its shards, in an order that never changes, and
`rows(shard, start)`. All else follows from these: which column is the text, and the documents of a shard with the
number of the row that each stands in, so that a stream can be stopped at any document and goes on there.

    class Letters(ShardSource):
        def rows(self, shard, start=0):
            return ({"text": f"{shard} {number}"} for number in range(start, 100))

    source = Letters("letters", ["a", "b"])
    next(source.documents("b", start=7))        # (7, "b 7")

What cannot be read raises DataError that names the shard and, where it is known, the row; whoever reads decides whether
to stop there or to go on without the rest of that shard.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import DataError, setting
from ...extras import need
from ..format import Options, extension, formats, kind_of
from ..formats.json_rows import as_row, parsed
from ..lines import PACKED, check_regular, lines_of
from ..records import find, summands, whole_characters
from ..sources import endings_left_out, files_of
from ..where import Where

Values = Mapping[str, Any]  # of a row, by column
ROWS_AT_ONCE = 256  # rows of a parquet file that are held together: a row group may have a million


class ShardSource(ABC):
    """A source of data in shards.

    name    as a person named it
    names   of the shards, in an order that never changes
    column  which column holds the text, as it was asked for: "body", or "title + body", both joined by a blank; None:
            "text", or the only one of strings
    readers how many shards are read at once, at most: each holds some rows of its shard in memory
    note    what a person is told of what is left out
    """

    readers = 64
    note = ""

    def __init__(self, name: str, names: Sequence[str], column: str | None = None) -> None:
        if not names:
            raise DataError("holds no shards", path=name)
        self.name, self.names, self.column = name, tuple(names), column

    @abstractmethod
    def rows(self, shard: str, start: int = 0) -> Iterator[Values]:
        """The rows of a shard, from number `start` on, counted from 0; no row is left out, so that numbers stay. Raises
        DataError, which names the shard, where it cannot be read."""

    def keeps(self, row: Values, place: str) -> bool:
        """Whether a row is wanted: a source may leave some out, by their score or their language. Raises
        DataError, with the place."""
        return True

    def count(self, shard: str) -> int | None:
        """How many rows the shard itself says that it has; None where it says nothing. Raises DataError."""
        return None

    def stamp(self, shard: str) -> Any:
        """Plain data that changes when the shard does, such as its size. Raises DataError where it is missing."""
        return None

    @cached_property
    def text(self) -> str:
        """The column of the text; found in the first shard that can be read. Raises DataError that lists the columns,
        or that of the first shard where none can be read."""
        if self.column is not None:
            return self.column
        first: DataError | None = None
        for shard in self.names:
            try:
                row = next(iter(self.rows(shard)), None)
            except DataError as error:
                first = first or error
                continue
            if row is not None:
                return text_column(row, shard)
        raise first or DataError("is empty: no shard has a row", path=self.name)

    def documents(self, shard: str, start: int = 0) -> Iterator[tuple[int, str]]:
        """(number of the row, text) of a shard's rows from number `start` on. Rows that are not wanted, and those whose
        text is empty or null, are left out. Raises DataError that names the shard and the row."""
        column = self.text
        for number, row in enumerate(self.rows(shard, start), start):
            place = f"{shard}, row {number}"
            if self.keeps(row, place):
                value = row[column] if column in row else find(row, column, place)
                if value is not None and not isinstance(value, (str, memoryview, bytes)):
                    raise DataError(f"{place}: {column!r} is {kind_of(value)}; expected a string")
                text = value if isinstance(value, str) else str(value or b"", "utf-8")
                if text.strip():
                    yield number, whole_characters(text, column, place)


def text_column(row: Values, shard: str) -> str:
    """Which column of a shard's first row holds the text: `text`, or the only one of strings."""
    strings = [name for name, value in row.items() if isinstance(value, (str, memoryview, bytes))]
    if "text" in row or len(strings) == 1:
        return "text" if "text" in row else strings[0]
    raise DataError(
        f"which column is the text? There is none called 'text', and {len(strings)} hold strings (columns:"
        f" {', '.join(row)}); name it with: {setting('column', 'NAME')}",
        path=shard,
    )


class FileShards(ShardSource):
    """Files, each a shard: .parquet, .jsonl, .ndjson, .csv, .txt and all other formats, packed too (.gz, .zst).

    name  a file, a folder or a pattern
    how   how files are read: the encoding, and the format where their names do not say it
    """

    def __init__(self, name: str, column: str | None = None, how: Options | None = None) -> None:
        super().__init__(name, [str(path) for path in files_of(name)], column)
        self.how = how or Options()
        self.note = endings_left_out(name)

    def rows(self, shard: str, start: int = 0) -> Iterator[Values]:
        path = Path(shard)
        kind = self.how.file_format or extension(path)
        read = None if kind == "parquet" and path.suffix.lower() in PACKED else READERS.get(kind)
        wanted = tuple(summands(self.column)) if self.column else ()
        wanted += self.how.where.columns if wanted and isinstance(self.how.where, Where) else ()
        if read is not None:
            self.how.check_taken(formats.get(kind).takes, f".{kind} files")
            return read(path, start, Options(columns=wanted, encoding=self.how.encoding))
        if kind not in formats:
            raise DataError(
                f"is of no known format, by its name; known: {', '.join(formats.names())}; name one with"
                f" {setting('file_format', 'jsonl')}",
                path=path,
            )
        self.how.check_taken(formats.get(kind).takes, f".{kind} files")
        values = (row for _, row in formats.get(kind).read(path, replace(self.how, header=True)))
        return itertools.islice(values, start, None)

    def keeps(self, row: Values, place: str) -> bool:
        return self.how.keep(row, place)

    def count(self, shard: str) -> int | None:
        path = Path(shard)
        if (self.how.file_format or extension(path)) != "parquet" or path.suffix.lower() in PACKED:
            return None
        return int(opened_parquet(path).metadata.num_rows)

    def stamp(self, shard: str) -> Any:
        return [check_regular(Path(shard)), str(self.how.where)]


def jsonl_rows(path: Path, start: int, options: Options) -> Iterator[Values]:
    """Lines of JSON that are not blank, from number `start` on; those before are not parsed."""
    filled = ((line, text) for line, text in lines_of(path, options.encoding) if text.strip())
    for line, text in itertools.islice(filled, start, None):
        yield as_row(parsed(text, path, line), f"{path}:{line}")


def parquet_rows(path: Path, start: int, options: Options) -> Iterator[Values]:
    """Rows of a parquet file from number `start` on: the row groups before that one are not read."""
    file = opened_parquet(path)
    names = list(file.schema_arrow.names)
    heads = {head for name in map(str, options.columns) for head in (name, name.split(".")[0])}
    columns = [name for name in names if name in heads] or None
    groups, skipped = groups_from(file.metadata, start)
    number = start
    try:
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=columns, use_threads=False):
            for row in batch.slice(min(skipped, len(batch))).to_pylist():
                yield row
                number += 1
            skipped = max(0, skipped - len(batch))
    except Exception as error:  # damaged pages, and values that Python has nothing for, raise many kinds
        raise damaged_parquet(path, error, f", row {number}") from None
    finally:
        file.close()


def groups_from(metadata: Any, start: int) -> tuple[list[int], int]:
    """The row groups of a parquet file from that of row `start` on, and how many rows of the first come before it."""
    left = start
    for group in range(metadata.num_row_groups):
        if (rows := metadata.row_group(group).num_rows) > left:
            return list(range(group, metadata.num_row_groups)), left
        left -= rows
    return [], 0


def opened_parquet(path: Path) -> Any:
    """A parquet file whose footer was read. Raises DataError where it is missing or damaged."""
    arrow = need("pyarrow.parquet", "reading parquet")
    if check_regular(path) == 0:
        raise DataError("is empty; expected a parquet file: copy it again", path=path)
    try:
        return arrow.ParquetFile(path, memory_map=False, pre_buffer=False, page_checksum_verification=True)
    except Exception as error:
        raise damaged_parquet(path, error) from None


def damaged_parquet(path: Path, error: Exception, where: str = "") -> DataError:
    what = " ".join(str(error).split())[:120]
    return DataError(f"is not a whole parquet file ({what}); copy it again", path=f"{path}{where}")


READERS: dict[str, Callable[[Path, int, Options], Iterator[Values]]] = {
    "parquet": parquet_rows,
    "jsonl": jsonl_rows,
    "ndjson": jsonl_rows,
}
"""Readers that can begin at any row without making those before it."""
