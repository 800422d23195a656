"""Text in UTF-8: of a whole file, line by line, or of a pipe, in the pieces in which it comes. A line ends at \\n, or
at \\r\\n, and nowhere else; a byte-order mark is left out."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import DataError
from ..tokenizers.texts import PIECE, Content
from .files import opened, unpacked, whole_file

ARRIVING = 1 << 16  # bytes of a pipe that are read at once, at most

MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""How files in encodings other than UTF-8 begin; the longer marks first, as UTF-16's is the beginning of UTF-32's."""

MAGIC = {
    b"\x1f\x8b": "gzip; name it .gz",
    b"PK\x03\x04": "zip; unpack it first",
    b"%PDF": "PDF; extract its text first",
    b"PAR1": "parquet; name it .parquet",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}
"""How files that are no text begin."""


def check_mark(start: bytes, path: Path) -> None:
    """Raise DataError where the beginning of a file says that it is in another encoding than UTF-8."""
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            message = f"is in {encoding}; convert it with: iconv -f {encoding} -t UTF-8 {path.name} > NEW"
            raise DataError(message, path=path, line=1)


def utf8_of(path: Path) -> Content:
    """The content of a whole file as it is, without a byte-order mark, known to be UTF-8.

    Raises DataError with offset and line where the file is empty, binary or in another encoding.
    """
    content = whole_file(path)
    if not content.strip():
        raise DataError("is empty; expected text", path=path)
    check_mark(content[:4], path)
    looks = next((f" (it looks like {kind})" for start, kind in MAGIC.items() if content.startswith(start)), "")
    zero = content.find(b"\0")
    if zero >= 0:
        message = f"is binary: byte {zero} is zero; expected text in UTF-8{looks}"
        raise DataError(message, path=path, line=content.count(b"\n", 0, zero) + 1)
    text = memoryview(content)[len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0 :]
    start = 0
    while start < len(text):
        end = start + PIECE
        try:
            start += codecs.utf_8_decode(text[start:end], "strict", end >= len(text))[1]
        except UnicodeDecodeError as error:
            at = len(content) - len(text) + start + error.start
            raise DataError(
                f"is not UTF-8: byte {at} is 0x{content[at]:02x}{looks}; if it is text in another encoding,"
                f" convert it with: iconv -f ISO-8859-1 -t UTF-8 {path.name} > NEW",
                path=path,
                line=content.count(b"\n", 0, at) + 1,
            ) from None
    return text


def whole_line(raw: bytes, number: int, at: int, path: Path) -> str:
    """The text of a line, without its end and, in the first, without a byte-order mark.

    number, at  of the line from 1, and of its first byte from 0

    Raises DataError where it is no UTF-8.
    """
    if number == 1:
        check_mark(raw[:4], path)
    if b"\0" in raw:
        raise DataError(f"is binary: byte {at + raw.index(0)} is zero; expected text in UTF-8", path=path, line=number)
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        start = error.start + (3 if number == 1 and raw.startswith(codecs.BOM_UTF8) else 0)
        around = raw[max(0, start - 30) : start + 30].strip().decode("utf-8", "backslashreplace")
        raise DataError(
            f"is not UTF-8: byte {at + start} of the file is 0x{raw[start]:02x}; if it is text in another"
            f" encoding, convert it with: iconv -f ISO-8859-1 -t UTF-8 {path.name} > NEW: {shown(around)}",
            path=path,
            line=number,
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines of a file, read one by one. Raises DataError with the line and its bytes where it is
    no UTF-8."""
    at = number = 0
    with opened(path) as file:
        while raw := unpacked(file.readline, path, number + 1):
            number += 1
            yield number, whole_line(raw, number, at, path)
            at += len(raw)
    if number == 0:
        raise DataError("is empty; expected rows", path=path)


def shown(text: str, most: int = 100) -> str:
    """A line as it is shown in an error: signs that do not print are escaped, the end of a long one is left out."""
    short = repr(text[:most])
    return short if len(text) <= most else short[:-1] + "..." + short[-1]


def arriving_lines(file: BinaryIO, path: Path) -> Iterator[list[str]]:
    """The lines that were complete at each reading; nothing comes of an empty file. Errors call it `path`.

    Raises DataError with the line and its bytes where it is no UTF-8, once the lines before are given out.
    """
    read = getattr(file, "read1", file.read)
    number = at = 0
    rest, ended = b"", False
    while not ended:
        fresh = unpacked(lambda: read(ARRIVING), path, number + 1)
        *complete, rest = (rest + fresh).split(b"\n")
        ended = not fresh
        lines: list[str] = []
        for raw in [rest] if ended and rest else complete:
            number += 1
            try:
                lines.append(whole_line(raw, number, at, path))
            except DataError:
                if lines:
                    yield lines
                raise
            at += len(raw) + 1
        if lines:
            yield lines
