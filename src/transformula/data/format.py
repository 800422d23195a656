"""What a format of files is: a function from the bytes of a file to its documents.

Adding one is one file in `formats/`:

    @formats.register("log")
    def read_log(path: Path, content: bytes, column: str | None) -> list[str]:
        return as_text(path, content).split("\\n---\\n")

It is found by the extension, with or without `.gz` after it. The function raises DataError with the line.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import DataError, InputError, MissingExtra, did_you_mean, nearest, setting
from ..registry import Registry
from ..tokenizers.texts import PIECE, Content, Texts
from .files import whole_file
from .lines import check_mark

Reader = Callable[[Path, bytes, str | None], Iterable[str | Content]]
"""(path, content, column) -> documents: strings, or UTF-8 that is known to be valid. They may be given out one by one,
so that no second copy of a large file is held."""

formats: Registry[Reader] = Registry("data format", "transformula.data.formats")
"""Readers by extension, without its dot."""


def extension(path: Path) -> str:
    """The extension that decides the format: 'jsonl' of corpus.jsonl and of corpus.jsonl.gz."""
    path = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return path.suffix.lower().removeprefix(".")


def read_file(path: Path, column: str | None = None) -> Texts:
    """The documents of one file. An extension that no format claims is read as text.

    Raises DataError for a file that is missing, unreadable, empty or not what its extension says.
    """
    content = whole_file(path)
    if not content.strip():
        raise DataError("is empty; expected text", path=path)
    kind = extension(path)
    try:
        return Texts.of(formats.get(kind if kind in formats else "txt")(path, content, column))
    except (DataError, MissingExtra):
        raise
    except InputError as error:  # half a character, from a reader that does not look for it
        raise DataError(str(error), path=path) from None


def as_utf8(path: Path, content: bytes) -> Content:
    """The content itself, without a leading byte-order mark, if it is UTF-8.

    Raises DataError with offset and line where the file is binary or in another encoding.
    """
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
    """The text of UTF-8 bytes, a leading byte-order mark left out; line ends stay as they are.

    Raises DataError with offset and line where the file is binary or in another encoding.
    """
    return str(as_utf8(path, content), "utf-8")


def lines_in(path: Path, content: bytes) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines of UTF-8, one by one, with their ends; errors as `as_text`."""
    text = as_utf8(path, content)
    start = len(content) - len(text)
    number = 0
    while start < len(content):
        number += 1
        end = content.find(b"\n", start) + 1 or len(content)
        yield number, content[start:end].decode()
        start = end


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


def whole_characters(text: str, path: Path, line: int | None = None) -> str:
    """The text itself. Raises DataError for half a character (a lone surrogate, as JSON's escapes can write it)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"holds half a character, \\u{ord(text[error.start]):04x} without its other half; take it out",
            path=path,
            line=line,
        ) from None
    return text


def choose_column(columns: Sequence[str], strings: Sequence[str], column: str | None, path: Path) -> str:
    """Which column holds the text: the one asked for, else "text", else the only one of strings.

    columns  all columns of the file; strings: those of them that hold strings.
    Raises DataError that lists them.
    """
    listed = ", ".join(columns) or "none"
    if column is not None:
        if column in columns:
            return column
        raise DataError(
            f"has no column {column!r};{did_you_mean(nearest(column, columns))} its columns: {listed}", path=path
        )
    if "text" in columns:
        return "text"
    if len(strings) == 1:
        return strings[0]
    raise DataError(
        f"which column is the text? There is none called 'text', and {len(strings)} hold strings"
        f" (columns: {listed}); name it with: {setting('column', 'NAME')}",
        path=path,
    )
