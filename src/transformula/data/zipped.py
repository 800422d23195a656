"""Documents of office programs: folders of XML, packed by zip. What they unpack to is looked up before it is read."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DataError
from .lines import RATIO, UNPACKED, open_binary


def damaged_file(path: Path, error: object) -> DataError:
    """The error for a document that cannot be read."""
    kind = path.suffix or "zip"
    reason = f"({' '.join(str(error).split())[:120]})"
    return DataError(f"is not a whole {kind} file {reason}: it is damaged, or has a password; save it again", path=path)


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip file, of which no more can be unpacked than it says, and that is no more than text packs to. Raises
    DataError."""
    with open_binary(path) as file:
        try:
            packed = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise damaged_file(path, error) from None
        with packed:
            size = sum(entry.file_size for entry in packed.infolist())
            if size > max(UNPACKED, RATIO * path.stat().st_size):
                raise DataError(
                    f"unpacks to {size:,} bytes, more than {RATIO} times its size; if that is meant, save it as .csv or"
                    " .txt",
                    path=path,
                )
            yield packed
