"""Files of bytes, opened for reading: those that have an end, unpacked where they are packed."""

from __future__ import annotations

import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ..errors import DataError, did_you_mean, nearest, shortened

UNPACKED = 100 * 2**20  # bytes up to which any gzip file is unpacked
RATIO = 200  # how many times its own size a gzip file may unpack to beyond that; text packs to a third or a tenth

KINDS = {
    stat.S_IFDIR: "is a folder; expected a file",
    stat.S_IFIFO: "is a pipe; expected a file, as it is read more than once: write it into one first",
    stat.S_IFCHR: "is a device; expected a file",
    stat.S_IFBLK: "is a device; expected a file",
    stat.S_IFSOCK: "is a socket; expected a file",
}


def check_regular(path: Path, once: bool = False) -> int:
    """The size of a file in bytes. Raises DataError for what is none, cannot be looked up, or has no end of its own.

    once  it is read only once, so a pipe is as good as a file
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise DataError(f"is a link to {path.readlink()}, which is not there", path=path) from None
        near = near_files(path)
        raise DataError(f"there is no such file;{did_you_mean(near) or ' see its folder'}", path=path) from None
    except (OSError, ValueError) as error:  # ValueError: a zero in the name
        raise unreadable(path, error) from None
    kind = stat.S_IFMT(status.st_mode)
    if kind in KINDS and not (once and kind == stat.S_IFIFO):
        raise DataError(KINDS[kind], path=path)
    return status.st_size


def near_files(path: Path) -> list[str]:
    """Names in the folder of a file that are nearly its own."""
    return nearest(path.name, [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else [])


def unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """The error for a file or folder that the system refuses."""
    if isinstance(error, PermissionError):
        return DataError("may not be read; give yourself the right with: chmod +r", path=path)
    return DataError(f"cannot be read ({getattr(error, 'strerror', None) or error})", path=shortened(str(path)))


class Unpacked(io.RawIOBase):
    """The content of a gzip file. Raises DataError for one that unpacks to far more than a text does."""

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._most, self._file = path, max(UNPACKED, RATIO * size), gzip.open(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count = self._file.readinto(cast(bytearray, buffer))
        if self._file.tell() > self._most:
            raise DataError(
                f"unpacks to more than {RATIO} times its size, {self._file.tell():,} bytes so far; if that is meant,"
                f" unpack it yourself: gunzip -k {self._path.name}",
                path=self._path,
            )
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def opened(path: Path, once: bool = False) -> Iterator[BinaryIO]:
    """A file of bytes, unpacked where its name ends in .gz. Raises DataError where it cannot be opened.

    once  it is read only once, so a pipe is as good as a file
    """
    size = check_regular(path, once)
    try:
        packed = path.suffix.lower() == ".gz"
        file = io.BufferedReader(Unpacked(path, size), 1 << 16) if packed else path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None
    with file:
        yield cast(BinaryIO, file)


def whole_file(path: Path) -> bytes:
    """The content of a file, unpacked where its name ends in .gz. Raises DataError."""
    with opened(path) as file:
        return unpacked(file.read, path)


def unpacked(read: Callable[[], bytes], path: Path, line: int | None = None) -> bytes:
    """What `read` returns. Raises DataError where it fails, e.g. as a gzip file is cut or damaged."""
    try:
        return read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"is not a whole gzip file ({error}): it is cut or damaged; copy it again"
        raise DataError(message, path=path, line=line) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except MemoryError:
        raise DataError("is too large for this machine's memory; split it into several files", path=path) from None
