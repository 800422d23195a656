"""A format of files: a reader that yields the rows of a file, each with its line. Adding one is one file in `formats/`
or, from outside, in a package that `--use` names:

    @formats.register("parallel")
    def read_parallel(path, options):
        for line, text in lines_of(path):
            german, english = text.split(" ||| ")
            yield line, {"de": german, "en": english}

It is found by the extension, with or without `.gz` after it, and serves every task: a document is a row of one
column.
"""

from __future__ import annotations

import codecs
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..registry import Registry
from ..tokenizers.texts import PIECE, Content
from .files import whole_file
from .lines import check_mark

Row = tuple[int | str, Mapping[str, Any]]
"""Where it stands in its file, a line or in words ("entry 3"), and its values by column: texts, numbers, lists, None; a
whole document also as UTF-8 that is known to be valid."""


@dataclass(frozen=True)
class Options:
    """How rows are read. None: the default of the format.

    columns   those that are asked for, by name or number; none: all
    form      the format of a file, by its extension: "tsv"; by default what the file's name ends in
    header    the first row of a table names its columns; the default unless columns are asked for by number
    quoted    fields of a table may stand in quotes; the default in csv, not in tsv
    join      what a list of texts is joined by, for all fields or by field; by default a list is refused
    channels  of pictures, 1 or 3; by default as many as a picture has
    """

    columns: tuple[str | int, ...] = ()
    form: str | None = None
    header: bool | None = None
    quoted: bool | None = None
    join: str | Mapping[str, str] | None = None
    channels: int | None = None


Reader = Callable[[Path, Options], Iterator[Row]]


@dataclass(frozen=True)
class Format:
    """A reader, and which of `Options` mean something to it.

    columns  whether rows have columns; else each is one text
    """

    read: Reader
    takes: tuple[str, ...] = ()
    columns: bool = True

    @property
    def table(self) -> bool:
        """Whether the first row may name the columns."""
        return "header" in self.takes


class Formats(Registry[Format]):
    """Readers by extension, without its dot."""

    def register(  # type: ignore[override]
        self, name: str, needs: Sequence[str] = (), takes: Sequence[str] = (), columns: bool = True
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator that registers a reader for an extension; see `Format` and `Registry.register`.

        A function of three arguments, (path, content, column) -> texts, is a reader of documents.
        """

        def decorate(read: Callable[..., Any]) -> Callable[..., Any]:
            of_documents = len(inspect.signature(read).parameters) == 3
            made = Format(_documents(read), (), False) if of_documents else Format(read, tuple(takes), columns)
            super(Formats, self).register(name, needs)(made)
            return read

        return decorate


formats = Formats("data format", "transformula.data.formats")


def _documents(read: Callable[..., Any]) -> Reader:
    def rows(path: Path, options: Options) -> Iterator[Row]:
        column = str(options.columns[0]) if options.columns else None
        for number, text in enumerate(read(path, whole_file(path), column), 1):
            yield f"document {number}", {"text": text}

    return rows


def extension(path: Path) -> str:
    """The extension that decides the format: 'jsonl' of corpus.jsonl and of corpus.jsonl.gz."""
    path = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return path.suffix.lower().removeprefix(".")


def has_columns(path: Path) -> bool:
    """Whether a file holds rows with columns, by its name."""
    return extension(path) in formats and formats.get(extension(path)).columns


def place_of(path: Path, at: int | str) -> str:
    """Where a row stands: 'rows.tsv:12', or 'rows.json, entry 12'."""
    return f"{path}:{at}" if isinstance(at, int) else f"{path}, {at}"


def as_utf8(path: Path, content: bytes) -> Content:
    """The content itself, without a leading byte-order mark, if it is UTF-8.

    Raises DataError with offset and line where the file is empty, binary or in another encoding.
    """
    if not content.strip():
        raise DataError("is empty; expected text", path=path)
    check_mark(content[:4], path)
    zero = content.find(b"\0")
    if zero >= 0:
        raise DataError(
            f"is binary: byte {zero} is zero; expected text in UTF-8{_magic(content)}",
            path=path,
            line=_line(content, zero),
        )
    text = memoryview(content)[len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0 :]
    start = 0
    while start < len(text):
        end = start + PIECE
        try:
            start += codecs.utf_8_decode(text[start:end], "strict", end >= len(text))[1]
        except UnicodeDecodeError as error:
            at = len(content) - len(text) + start + error.start
            raise DataError(
                f"is not UTF-8: byte {at} is 0x{content[at]:02x}{_magic(content)}; if it is text in another encoding,"
                f" convert it with: iconv -f ISO-8859-1 -t UTF-8 {path.name} > NEW",
                path=path,
                line=_line(content, at),
            ) from None
    return text


def as_text(path: Path, content: bytes) -> str:
    """The text of UTF-8 bytes, a leading byte-order mark left out; line ends stay as they are. Errors as `as_utf8`."""
    return str(as_utf8(path, content), "utf-8")


def _line(content: bytes, at: int) -> int:
    return content.count(b"\n", 0, at) + 1


MAGIC = {
    b"\x1f\x8b": "gzip; name it .gz",
    b"PK\x03\x04": "zip; unpack it first",
    b"%PDF": "PDF; extract its text first",
    b"PAR1": "parquet; name it .parquet",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}


def _magic(content: bytes) -> str:
    found = next((what for start, what in MAGIC.items() if content.startswith(start)), "")
    return f" (it looks like {found})" if found else ""
