"""A format of files that hold rows with columns. Adding one is one file in `record_formats/`:

@record_format("rows")
def read_rows(path: Path, options: Options) -> Iterator[Row]:
    for line, text in lines_of(path):
        yield line, {"text": text}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..registry import Registry

Row = tuple[int, Mapping[str, Any]]
"""Its line (or number), its values by column."""


@dataclass(frozen=True)
class Options:
    """How rows are read. None: as is usual for the format.

    columns   those that are asked for, by name or number; none: all
    form      the format of a file, by its extension: "tsv"; usual is what the file's name ends in
    header    the first row of a table names its columns; usual unless columns are asked for by number
    quoted    fields of a table may stand in quotes; usual in csv, not in tsv
    join      what a list of texts is joined by, for all fields or by field; usually a list is refused
    channels  of pictures, 1 or 3; usually as many as a picture has
    """

    columns: tuple[str | int, ...] = ()
    form: str | None = None
    header: bool | None = None
    quoted: bool | None = None
    join: str | Mapping[str, str] | None = None
    channels: int | None = None


Reader = Callable[[Path, Options], Iterator[Row]]


@dataclass(frozen=True)
class RecordFormat:
    """A reader, and which of `Options` mean something to it."""

    read: Reader
    takes: tuple[str, ...]


record_formats: Registry[RecordFormat] = Registry("record format", "transformula.data.record_formats")
"""Readers by extension, without its dot."""


def record_format(name: str, takes: Sequence[str] = (), needs: Sequence[str] = ()) -> Callable[[Reader], Reader]:
    """Decorator that announces a reader for files of an extension; `needs` are optional packages."""

    def announce(read: Reader) -> Reader:
        record_formats.register(name, needs)(RecordFormat(read, tuple(takes)))
        return read

    return announce
