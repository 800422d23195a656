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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..format import Options, kind_of
from ..lines import check_regular
from ..records import find_value, summands, text_column, whole_characters
from ..sources import endings_left_out, file_origin, files_of

Values = Mapping[str, Any]  # of a row, by column


class ShardSource(ABC):
    """A source of data in shards.

    name    as a person named it
    names   of the shards, in an order that never changes
    column  which column holds the text, as it was asked for: "body", or "title + body", both joined by a blank; None:
            "text", or the only one of strings
    how     how rows are read, and which of them
    readers how many shards are read at once, at most: each holds some rows of its shard in memory
    note    what a person is told of what is left out
    """

    readers = 64
    note = ""

    def __init__(self, name: str, names: Sequence[str], column: str | None = None, how: Options | None = None) -> None:
        if not names:
            raise DataError("holds no shards", path=name)
        self.name, self.names, self.column, self.how = name, tuple(names), column, how or Options()

    @abstractmethod
    def rows(self, shard: str, start: int = 0) -> Iterator[Values]:
        """The rows of a shard, from number `start` on, counted from 0; no row is left out, so that numbers stay. Raises
        DataError, which names the shard, where it cannot be read."""

    def keeps(self, row: Values, place: str) -> bool:
        """Whether a row is wanted, as `where` says. Raises DataError, with the place."""
        return self.how.keep(row, place)

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
                strings = [name for name, value in row.items() if isinstance(value, (str, memoryview, bytes))]
                return text_column(list(row), strings, shard)
        raise first or DataError("is empty: no shard has a row", path=self.name)

    def documents(self, shard: str, start: int = 0) -> Iterator[tuple[int, str]]:
        """(number of the row, text) of a shard's rows from number `start` on. Rows that are not wanted, and those whose
        text is empty or null, are left out. Raises DataError that names the shard and the row."""
        column = self.text
        for number, row in enumerate(self.rows(shard, start), start):
            place = f"{shard}, row {number}"
            if self.keeps(row, place):
                value = row[column] if column in row else find_value(row, column, place)
                if value is not None and not isinstance(value, (str, memoryview, bytes)):
                    raise DataError(f"{place}: {column!r} is {kind_of(value)}; expected a string")
                text = value if isinstance(value, str) else str(value or b"", "utf-8")
                if text.strip():
                    yield number, whole_characters(text, column, place)


class FileShards(ShardSource):
    """Files, each a shard: .parquet, .jsonl, .ndjson, .csv, .txt and all other formats, packed too (.gz, .zst).

    name  a file, a folder or a pattern
    """

    def __init__(self, name: str, column: str | None = None, how: Options | None = None) -> None:
        super().__init__(name, [str(path) for path in files_of(name)], column, how)
        self.note = endings_left_out(name)

    def rows(self, shard: str, start: int = 0) -> Iterator[Values]:
        origin = file_origin(Path(shard), self.how.file_format, texts=True)
        self.how.check_taken(origin.takes, origin.where)
        skips = "start" in origin.takes
        columns = summands(self.column) if self.column else ()
        rows = origin.read(replace(self.how.of(columns), header=True, start=start if skips else 0))
        return itertools.islice((row for _, row in rows), 0 if skips else start, None)

    def stamp(self, shard: str) -> Any:
        return [check_regular(Path(shard)), str(self.how.where)]


class HubShards(ShardSource):
    """The files of hf:OWNER/NAME:CONFIG, in the order of the hub's listing. The commit is found when it is first asked
    for; reading goes on there, whatever the branch becomes.

    Reading holds some 50 MiB of a file with pages of the web, as FineWeb-Edu's: so few are read at once.

    Raises what `HubSet` raises, and DataError for a name with a number of rows, as train[:1000]: shards are read whole.
    """

    readers = 16

    def __init__(self, name: str, column: str | None = None, how: Options | None = None) -> None:
        from ..hub import HubSet  # what reads the hub is loaded for it

        self.known = HubSet(name)
        if self.known.name.first is not None:
            raise DataError(
                "a stream reads whole files; leave the number of rows out, or read the first rows without a stream",
                path=name,
            )
        super().__init__(name, self.known.files, column, how)
        self._number = {shard: number for number, shard in enumerate(self.names)}

    def rows(self, shard: str, start: int = 0) -> Iterator[Values]:
        return self.known.rows(self._number[shard], start)

    def stamp(self, shard: str) -> Any:
        return [self.known.commit, str(self.how.where)]
