"""Files, opened for reading: those that have an end, unpacked where they are packed; and their text, whole or line by
line. Text is UTF-8 unless an encoding is named, or a byte-order mark, which is left out, says UTF-16 or UTF-32; and a
line ends at \\n, or at \\r\\n, and nowhere else."""

from __future__ import annotations

import codecs
import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from ..errors import TYPED, ConfigError, DataError, InputError, did_you_mean, nearest, setting, shortened
from ..extras import need
from ..tokenizers.texts import PIECE, Content, blocks_of, was_read
from .aside import text_aside

BadRows = Literal["stop", "skip"] | None
"""What is done with a row that cannot be read or answered; None: it is an error, and nothing else can be said."""

UNPACKED = 100 * 2**20  # bytes up to which any gzip file is unpacked
RATIO = 200  # how many times its own size a gzip file may unpack to beyond that; text packs to a third or a tenth
PACKED = (".gz", ".zst")  # endings of packed files
ARRIVING = 1 << 16  # bytes of a pipe that are read at once, at most

KINDS = {  # what is no file
    stat.S_IFDIR: "is a folder; expected a file",
    stat.S_IFIFO: "is a pipe; expected a file, as it is read more than once: write it into one first",
    stat.S_IFCHR: "is a device; expected a file",
    stat.S_IFBLK: "is a device; expected a file",
    stat.S_IFSOCK: "is a socket; expected a file",
}
# How files in other encodings begin; the longer marks first, as UTF-16's is the beginning of UTF-32's.
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")  # as Python calls them
WESTERN = ("iso8859-1", "iso8859-15", "cp1252")  # as Python calls them
MAGIC = {  # how files begin that are no text
    b"\x1f\x8b": "gzip; name it .gz",
    b"PK\x03\x04": "zip; unpack it first",
    b"%PDF": "PDF; name it .pdf",
    b"PAR1": "parquet; name it .parquet",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}


def check_regular(path: Path, once: bool = False) -> int:
    """The size of a file in bytes. Raises DataError for what is none, cannot be looked up, or has no end of its own; of
    a file that is read only `once`, a pipe is as good."""
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise DataError(f"is a link to {path.readlink()}, which is not there", path=path) from None
        near = near_files(path)
        raise DataError(f"there is no such file;{did_you_mean(near) or ' see its folder'}", path=path) from None
    except (OSError, ValueError) as error:  # ValueError: a zero in the name
        raise access_error(path, error) from None
    kind = stat.S_IFMT(status.st_mode)
    if kind in KINDS and not (once and kind == stat.S_IFIFO):
        raise DataError(KINDS[kind], path=path)
    return status.st_size


def near_files(path: Path) -> list[str]:
    """Names in the folder of a file that are nearly its own."""
    return nearest(path.name, [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else [])


def access_error(path: Path, error: OSError | ValueError) -> DataError:
    """The error for a file or folder that the system refuses."""
    if isinstance(error, PermissionError):
        return DataError("may not be read; give yourself the right with: chmod +r", path=path)
    return DataError(f"cannot be read ({getattr(error, 'strerror', None) or error})", path=shortened(str(path)))


class Unpacked(io.RawIOBase):
    """What a packed file unpacks to. Raises DataError where that is far more than a text packs to.

    packed  bytes of the packed file
    remedy  what the error adds
    """

    def __init__(self, file: Any, packed: Callable[[], int], path: object, remedy: str = "") -> None:
        self._file, self._packed, self._path, self._remedy, self._read = file, packed, path, remedy, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(cast(bytearray, buffer))
        piece = self._file.read(len(room))
        room[: len(piece)] = piece
        self._read += len(piece)
        if self._read > max(UNPACKED, RATIO * self._packed()):
            message = f"unpacks to more than {RATIO} times its size, {self._read:,} bytes so far{self._remedy}"
            raise DataError(message, path=self._path)
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def unpacking(path: Path, size: int) -> BinaryIO:
    """The content of a packed file of so many bytes. Raises OSError."""
    if path.suffix.lower() == ".gz":
        file, command = gzip.open(path, "rb"), "gunzip -k"
    else:
        file = need("pyarrow", "reading .zst files").input_stream(str(path), compression="zstd")
        command = "unzstd"
    remedy = f"; if that is meant, unpack it yourself: {command} {path.name}"
    return cast(BinaryIO, io.BufferedReader(Unpacked(file, lambda: size, path, remedy), 1 << 16))


@contextmanager
def open_binary(path: Path, once: bool = False) -> Iterator[BinaryIO]:
    """A file of bytes, unpacked where its name ends in .gz or .zst; see `check_regular`. Raises DataError where it
    cannot be opened."""
    size = check_regular(path, once)
    try:
        file = unpacking(path, size) if path.suffix.lower() in PACKED else path.open("rb")
    except OSError as error:
        raise access_error(path, error) from None
    with file:
        yield file


def whole_file(path: Path) -> bytes:
    """The content of a file, unpacked where its name ends in .gz or .zst. Raises DataError."""
    with open_binary(path) as file:
        return read_checked(file.read, path)


def read_checked(read: Callable[[], bytes], path: Path, line: int | None = None) -> bytes:
    """What `read` returns. Raises DataError where it fails, e.g. as a gzip file is cut or damaged."""
    try:
        return read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"is not a whole gzip file ({error}): it is cut or damaged; copy it again"
        raise DataError(message, path=path, line=line) from None
    except OSError as error:
        if path.suffix.lower() == ".zst":
            message = f"is not a whole zstd file ({error}): it is cut or damaged; copy it again"
            raise DataError(message, path=path, line=line) from None
        raise access_error(path, error) from None
    except MemoryError:
        raise DataError("is too large for this machine's memory; split it into several files", path=path) from None


def wide_encoding(start: bytes) -> str | None:
    """The encoding that the mark at the beginning of a file says, other than UTF-8."""
    return next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), None)


class Recoded(io.RawIOBase):
    """The text of a file of wide characters, as UTF-8 without a byte-order mark. Raises DataError where it is none."""

    def __init__(self, file: BinaryIO, path: Path, encoding: str) -> None:
        self._file, self._path, self._encoding = file, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready, self._ended, self._begun = b"", False, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(cast(bytearray, buffer))
        while not self._ready and not self._ended:
            self._more()
        count = min(len(room), len(self._ready))
        room[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _more(self) -> None:
        raw = read_checked(lambda: self._file.read(ARRIVING), self._path)
        self._ended = not raw
        try:
            self._ready = self._decoder.decode(raw, self._ended).encode("utf-8")
        except UnicodeError as error:
            message = f"is not whole {self._encoding.upper()} ({error}): it is cut or damaged; copy it again"
            raise DataError(message, path=self._path) from None
        if not self._begun and self._ready:
            self._begun, self._ready = True, self._ready.removeprefix(codecs.BOM_UTF8)


@contextmanager
def open_text(path: Path, encoding: str | None, line: int | None = None) -> Iterator[tuple[BinaryIO, str | None]]:
    """A file of text, and the encoding of what is read: a file in UTF-16 or UTF-32, by its mark or by the encoding that
    is named, is given as UTF-8. Raises DataError, with the first line's number where that is given."""
    with open_binary(path) as file:
        start = read_checked(lambda: cast(io.BufferedReader, file).peek(4)[:4], path, line)
        mark = wide_encoding(start)
        if mark is not None and encoding is not None and encoding not in WIDE:
            raise DataError(f"is in {mark}: leave out {setting('encoding')}", path=path, line=1)
        wide = encoding if encoding in WIDE else mark
        if wide is None:
            yield file, encoding
        else:
            yield cast(BinaryIO, io.BufferedReader(Recoded(file, path, wide), ARRIVING)), None


def encoding_of(name: str | None) -> str | None:
    """The encoding of that name; None for UTF-8, the default. Raises ConfigError for one that is not known; or in which
    a line does not end at the byte of \\n, unless it is UTF-16 or UTF-32."""
    try:
        known = codecs.lookup(name or "utf-8").name.removesuffix("-sig")
        if known not in WIDE and "a\n".encode(known) != b"a\n":
            raise ConfigError(f"encoding: {name} is read only after: iconv -f {name} -t UTF-8 FILE > NEW")
    except (LookupError, UnicodeError):
        raise ConfigError(f"encoding: {name!r} is not known; expected one such as latin-1, cp1252 or gb18030") from None
    return None if known == "utf-8" else known


def in_another_encoding(path: Path, encoding: str | None) -> str:
    """What is to be done with a file that is not in the encoding that was named, or not in UTF-8."""
    if encoding is not None:
        return f"name the encoding that it is in with {setting('encoding', 'NAME')}"
    named = setting("encoding", "latin-1")
    name_it = "" if TYPED.get() and not named.startswith("--") else f"name that, as in {named}, or "
    return f"if it is text in another encoding, {name_it}convert it: iconv -f ISO-8859-1 -t UTF-8 {path.name} > NEW"


def check_western(raw: bytes, encoding: str, path: Path, line: int | None = None) -> None:
    """Raise DataError for bytes that are said to be in an encoding of Western Europe and are UTF-8: in these encodings
    all bytes are characters, so that each accent would become two of them."""
    if encoding in WESTERN and not raw.isascii():
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            return
        raise DataError(f"is UTF-8, not {encoding}: leave out {setting('encoding')}", path=path, line=line)


def wide_hint(zeros: bytes, zero: int) -> str:
    """What an error adds where text in UTF-16 without a mark has its first zero so, as byte number `zero`: half of the
    bytes from there on are zero."""
    if zeros[:8:2].strip(b"\0") or zeros[1:8:2].count(0):
        return ""
    named = setting("encoding", ("utf-16-be", "utf-16-le")[zero % 2])
    return f"; if it is text in UTF-16, name that: {named}"


def utf8_of(path: Path, encoding: str | None = None) -> Content:
    """The content of a whole file as UTF-8, without a byte-order mark: as it is, unless another encoding is named. A
    large one lies in a file, see `text_aside`. Raises DataError with offset and line where the file is empty, binary or
    in another encoding."""
    with open_text(path, encoding) as (file, encoding):
        content = text_aside(iter(lambda: read_checked(lambda: file.read(PIECE), path), b""))
    if not content or all(block.isspace() for block in map(bytes, blocks_of(content))):
        raise DataError("is empty; expected text", path=path)
    begun = bytes(content[:16])
    looks = next((f" (it looks like {kind})" for start, kind in MAGIC.items() if begun.startswith(start)), "")
    zero = place_of_zero(content)
    if zero >= 0:
        hint = wide_hint(bytes(content[zero : zero + 8]), zero)
        message = f"is binary: byte {zero} is zero; expected text in UTF-8{looks}{hint}"
        raise DataError(message, path=path, line=line_at(content, zero))
    text = memoryview(content)[len(codecs.BOM_UTF8) if begun.startswith(codecs.BOM_UTF8) else 0 :]
    start = 0
    try:
        if encoding is not None:
            check_western(bytes(content), encoding, path)
            return memoryview(str(text, encoding).encode("utf-8", "replace"))
        while start < len(text):
            end = start + PIECE
            count = codecs.utf_8_decode(text[start:end], "strict", end >= len(text))[1]
            was_read(text, count)
            start += count
    except UnicodeDecodeError as error:
        at = len(content) - len(text) + start + error.start
        message = f"is not {encoding or 'UTF-8'}: byte {at} is 0x{content[at]:02x}{looks}"
        message += f"; {in_another_encoding(path, encoding)}"
        raise DataError(message, path=path, line=line_at(content, at)) from None
    return text


def place_of_zero(content: Content) -> int:
    """Where the first zero byte stands; -1 where there is none."""
    start = 0
    for block in map(bytes, blocks_of(content)):
        if (zero := block.find(b"\0")) >= 0:
            return start + zero
        start += len(block)
    return -1


def line_at(content: Content, place: int) -> int:
    """The number, from 1, of the line in which a byte stands."""
    return 1 + sum(bytes(block).count(b"\n") for block in blocks_of(content[:place]))


def whole_line(raw: bytes, number: int, at: int, path: Path, encoding: str | None = None) -> str:
    """The text of a line, without its end and, in the first, without a byte-order mark. Lines are numbered from 1, and
    bytes, of which its first is number `at`, from 0. Raises DataError where it is not in its encoding."""
    if number == 1 and (mark := wide_encoding(raw)):
        message = f"is in {mark}; convert it with: iconv -f {mark} -t UTF-8 {path.name} > NEW"
        raise DataError(message, path=path, line=1)
    if b"\0" in raw:
        zero = raw.index(0)
        message = f"is binary: byte {at + zero} is zero; expected text in UTF-8{wide_hint(raw[zero:], zero)}"
        raise DataError(message, path=path, line=number)
    if encoding is not None:
        check_western(raw, encoding, path, number)
    try:
        text = raw.decode(encoding or ("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        start = error.start + (3 if encoding is None and number == 1 and raw.startswith(codecs.BOM_UTF8) else 0)
        around = excerpt(raw[max(0, start - 30) : start + 30].strip().decode("utf-8", "backslashreplace"))
        message = f"is not {encoding or 'UTF-8'}: byte {at + start} of the file is 0x{raw[start]:02x}"
        message += f"; {in_another_encoding(path, encoding)}: {around}"
        raise DataError(message, path=path, line=number) from None
    return text.removesuffix("\n").removesuffix("\r")


def lines_of(path: Path, encoding: str | None = None, bad_rows: BadRows = None) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines of a file, read one by one. Raises DataError with the line and its bytes where it is
    not in its encoding, by default UTF-8; or a `BadLine` stands for it."""
    at = number = 0
    with open_text(path, encoding, 1) as (file, encoding):
        while raw := read_checked(file.readline, path, number + 1):
            number += 1
            try:
                text = whole_line(raw, number, at, path, encoding)
            except DataError as error:
                text = BadLine.of(skip_or_raise(error, bad_rows))
            yield number, text
            at += len(raw)
    if number == 0:
        raise DataError("is empty; expected rows", path=path)


def excerpt(text: str, most: int = 100) -> str:
    """A line as it is shown in an error: signs that do not print are escaped, the end of a long one is left out."""
    short = repr(text[:most])
    return short if len(text) <= most else short[:-1] + "..." + short[-1]


class BadLine(str):
    """What stands for a line or a row that cannot be read: an empty text, with the error that says why."""

    error: InputError

    @classmethod
    def of(cls, error: InputError) -> BadLine:
        line = cls()
        line.error = error
        return line


def skip_or_raise(error: InputError, bad_rows: BadRows) -> InputError:
    """The error of one line or row, where such are left out. Raises it where they are not, with the option that says so
    where there is one."""
    if bad_rows == "skip":
        return error
    if bad_rows == "stop" and (skip := setting("bad_rows", "skip")) not in error.message:
        error.message += f"; to leave out such rows, and answer the others: {skip}"
    raise error from None


def arriving_lines(file: BinaryIO, path: Path, bad_rows: BadRows = None) -> Iterator[list[str]]:
    """The lines that were complete at each reading; nothing comes of an empty file. Raises DataError, which calls it
    `path`, with the line and its bytes where it is no UTF-8, once the lines before are given out; or a `BadLine` stands
    for it."""
    read = getattr(file, "read1", file.read)
    number = at = 0
    rest, ended = b"", False
    while not ended:
        fresh = read_checked(lambda: read(ARRIVING), path, number + 1)
        *complete, rest = (rest + fresh).split(b"\n")
        ended = not fresh
        lines: list[str] = []
        for raw in [rest] if ended and rest else complete:
            number += 1
            try:
                lines.append(whole_line(raw, number, at, path))
            except DataError as error:
                if lines and bad_rows != "skip":
                    yield lines
                lines.append(BadLine.of(skip_or_raise(error, bad_rows)))
            at += len(raw) + 1
        if lines:
            yield lines
