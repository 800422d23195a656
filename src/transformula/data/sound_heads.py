"""What the head of a file of sound says of its length, to notice that a file was cut: of raw samples libsndfile reads
what is there, and says nothing.

    wav, aiff   chunks of 4 bytes of name and 4 of size; of more than 4 GB (RF64, BW64) `ds64` has the size
    au          the size at byte 8
    mp3         a first frame named Xing or Info, where the encoder wrote one
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal

STREAMED = 0x7F000000  # from here on a size is what programs write that do not know it
TOLERATED = 64  # bytes: some programs count the head, too
MOST_CHUNKS = 1000  # before the samples
Order = Literal["little", "big"]


def sizes_said(file: Path | bytes) -> tuple[int, int] | None:
    """The bytes of sound that the head of a file says, and those that are there; None where the head does not say it.
    A size of 0, or of 2 GB and more that are not there, is that of a stream, whose writer did not know it."""
    length = len(file) if isinstance(file, bytes) else file.stat().st_size
    with io.BytesIO(file) if isinstance(file, bytes) else file.open("rb") as opened:
        start = opened.read(12)
        read = READERS.get(start[:4], of_frames if is_mp3(start) else None)
        found = read(opened, length) if read is not None else None
    if found is None or found[0] == 0 or found[1] < found[0] >= STREAMED:
        return None
    return found


def is_cut(said: int, there: int) -> bool:
    return there < said - TOLERATED


def of_chunks(opened: BinaryIO, length: int, name: bytes, order: Order) -> tuple[int, int] | None:
    """The size of the chunk that holds the samples."""
    place, large = 12, None
    for _ in range(MOST_CHUNKS):
        opened.seek(place)
        chunk = opened.read(24)
        if len(chunk) < 8:
            return None
        size = int.from_bytes(chunk[4:8], order)
        if chunk[:4] == name:
            return (size if large is None else large), length - place - 8
        if chunk[:4] == b"ds64":
            large = int.from_bytes(chunk[16:24], order)
        place += 8 + size + size % 2
    return None


def of_au(opened: BinaryIO, length: int) -> tuple[int, int]:
    opened.seek(4)
    first, size = (int.from_bytes(opened.read(4), "big") for _ in range(2))
    return size, length - first


def of_frames(opened: BinaryIO, length: int) -> tuple[int, int] | None:
    """The bytes of all frames of an mp3 file, which its first may say."""
    opened.seek(0)
    tag = opened.read(10)
    start = 0
    if tag[:3] == b"ID3":  # seven bits in each byte of its size
        start = 10 + sum(byte << 7 * place for place, byte in enumerate(reversed(tag[6:10])))
    opened.seek(start)
    frame = opened.read(256)
    at = max(frame.find(b"Xing"), frame.find(b"Info"))
    if at < 4 or not is_mp3(frame) or not frame[at + 7] & 2:
        return None
    at += 12 if frame[at + 7] & 1 else 8
    return int.from_bytes(frame[at : at + 4], "big"), length - start


def is_mp3(start: bytes) -> bool:
    """Whether a file begins with a tag, or with the mark of a frame."""
    return start[:3] == b"ID3" or (len(start) > 1 and start[0] == 0xFF and start[1] & 0xE0 == 0xE0)


READERS: dict[bytes, Callable[[BinaryIO, int], tuple[int, int] | None]] = {
    **dict.fromkeys((b"RIFF", b"RF64", b"BW64"), lambda opened, length: of_chunks(opened, length, b"data", "little")),
    b"RIFX": lambda opened, length: of_chunks(opened, length, b"data", "big"),
    b"FORM": lambda opened, length: of_chunks(opened, length, b"SSND", "big"),
    b".snd": of_au,
}  # by the first bytes of a file
