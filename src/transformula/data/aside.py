"""Large texts outside of memory: in a file without a name beside the cache, which is gone when the process is."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from ..errors import DataError
from ..tokenizers.base import as_utf8
from ..tokenizers.texts import Content, MappedText
from .cache import cache_folder, guarded

ASIDE = 1 << 24  # bytes of texts that stay in memory
LONG = 1 << 10  # bytes of a document from which on it is laid aside: a place in a file takes some 200 itself


def text_aside(blocks: Iterable[bytes]) -> Content:
    """A text of blocks, each of which is asked for once: in memory; of `ASIDE` bytes and more in a file that is mapped,
    so that the system reads its pages when they are looked at. Raises DataError where the disk is full."""
    held, size, rest = list[bytes](), 0, iter(blocks)
    for block in rest:
        held.append(block)
        size += len(block)
        if size >= ASIDE:
            break
    file = _nameless() if size >= ASIDE else None
    if file is None:
        return b"".join([*held, *rest])
    with file, guarded(cache_folder()):
        file.writelines(_once(held))
        file.writelines(rest)
        return _mapped(file)


class DocumentsAside:
    """Documents as UTF-8: long ones in one file, once they have `ASIDE` bytes together.

    contents  those that were added; of long ones, before `whole` is called, maybe their length alone
    """

    def __init__(self) -> None:
        self.contents: list[Content | int] = []
        self._file: BinaryIO | None = None
        self._waiting, self._size = list[int](), 0  # numbers of long documents in memory, and their bytes

    def add(self, document: str | Content) -> None:
        """Raises InputError for half a character, DataError where the disk is full."""
        content = as_utf8(document) if isinstance(document, str) else document
        self.contents.append(content)
        mapped = isinstance(content, memoryview) and isinstance(content.obj, MappedText)
        if len(content) >= LONG and not mapped:
            self._waiting.append(len(self.contents) - 1)
            self._size += len(content)
            if self._size >= ASIDE:
                self._write()

    def _write(self) -> None:
        self._file = self._file or _nameless()
        if self._file is not None:
            with guarded(cache_folder()):
                for number in self._waiting:
                    content = cast(Content, self.contents[number])
                    self._file.write(content)
                    self.contents[number] = len(content)
        self._waiting, self._size = [], 0

    def whole(self) -> list[Content]:
        """All documents."""
        if self._file is None:
            return cast(list[Content], self.contents)
        self._write()
        with self._file, guarded(cache_folder()):
            text, start = _mapped(self._file), 0
        for number, content in enumerate(self.contents):
            if isinstance(content, int):
                self.contents[number] = text[start : start + content]
                start += content
        return cast(list[Content], self.contents)


def _nameless() -> BinaryIO | None:
    """A new file in the cache's folder; None where none can be made, and memory has to do."""
    with contextlib.suppress(OSError, DataError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        return cast(BinaryIO, tempfile.TemporaryFile(dir=folder))
    return None


def _mapped(file: BinaryIO) -> memoryview:
    """What was written into a file."""
    file.flush()
    return memoryview(MappedText(file.fileno(), 0, access=mmap.ACCESS_READ))


def _once(held: list[bytes]) -> Iterator[bytes]:
    """Blocks, each of which is let go."""
    held.reverse()
    while held:
        yield held.pop()
