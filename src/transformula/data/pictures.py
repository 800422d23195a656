"""Pictures: PNG and JPEG (by Pillow, which comes with matplotlib), folders with captions, and the IDX format of MNIST.

A picture is a tensor (channels, height, width) uint8: 1 channel for shades of gray, else 3.
IDX: two zero bytes, the type (8: unsigned bytes), the number of dimensions, each of them in 4 bytes, and the data.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, DataError, InputError, did_you_mean
from ..structured import Malformed, parse_json
from .format import Options, formats
from .lines import check_regular, lines_of, near_files, open_binary, read_checked

CAPTIONS = tuple(f"{name}.{kind}" for name in ("captions", "metadata") for kind in ("tsv", "csv", "jsonl"))
NAMING = ("file_name", "image", "file", "filename", "path")  # columns that name a picture; the first that is there
PICTURES = frozenset(["png", "jpg", "jpeg", "bmp", "gif", "webp", "tif", "tiff", "pgm", "ppm"])  # extensions
MAX_PIXELS = 50_000_000  # of a picture: a small file can say that it is of any size


@dataclass(frozen=True)
class PictureFile:
    """A picture in a file or in bytes, decoded when it is asked for.

    place  the row that names it
    white  whether it is put on white where it is transparent; else its colors are taken as if it were not
    """

    file: Path | bytes
    place: str
    channels: int | None = None
    white: bool = True

    def load(self) -> Tensor:
        """(channels, height, width) uint8. Raises DataError."""
        from PIL import Image, UnidentifiedImageError

        file = self.file
        where = f"{file}, named at {self.place}" if isinstance(file, Path) else self.place
        try:
            if isinstance(file, Path) and file.exists():
                check_regular(file)
            with Image.open(file if isinstance(file, Path) else io.BytesIO(file)) as image:
                if math.prod(image.size) > MAX_PIXELS:
                    size = " x ".join(map(str, image.size))
                    raise DataError(f"{where}: is of {size} pixels; at most {MAX_PIXELS:,} are read: make it smaller")
                return pixels(image, self.channels, self.white)
        except DataError:
            raise
        except FileNotFoundError:
            near = near_files(file) if isinstance(file, Path) else []
            raise DataError(f"{where}: there is no such picture;{did_you_mean(near)}") from None
        except Exception as error:  # Pillow's readers of damaged files raise whatever they meet
            reason = "is no picture that is known" if isinstance(error, UnidentifiedImageError) else str(error)[:200]
            raise DataError(f"{where}: the picture cannot be decoded ({reason}); copy it again") from None


@dataclass(frozen=True)
class PictureFiles:
    """Several pictures of one row, in their order, decoded when they are asked for."""

    pictures: tuple[PictureFile | Tensor, ...]

    def load(self) -> list[Tensor]:
        return [each.load() if isinstance(each, PictureFile) else each for each in self.pictures]


def pixels(image: Any, channels: int | None = None, white: bool = True) -> Tensor:
    """The tensor of a Pillow image, turned as the camera says; `white`: on white where it is transparent."""
    from PIL import Image, ImageOps

    if channels not in (None, 1, 3):
        raise ConfigError(f"channels: {channels}; expected 1 or 3")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I") or image.mode == "F":  # 16 bits: Pillow would clip them at 255
        image = Image.fromarray((np.asarray(image, dtype=np.float64) / 257).round().clip(0, 255).astype(np.uint8))
    if white and (image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info):
        gray = image.mode == "LA"
        front = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", front.size, "white"), front).convert("L" if gray else "RGB")
    if "transparency" in image.info:  # of colors that stand in a table
        image = image.convert("RGBA")
    wanted = channels or (1 if image.mode in ("1", "L", "LA") else 3)
    array = np.array(image.convert("L" if wanted == 1 else "RGB"))
    return torch.from_numpy(array[None] if wanted == 1 else np.ascontiguousarray(array.transpose(2, 0, 1)))


def with_channels(image: Tensor, channels: int | None) -> Tensor:
    """(channels, height, width) with 1 or 3 channels: shades of gray three times, or colors as shades of gray; None: as
    it is."""
    if channels in (None, len(image)) or {len(image), channels} != {1, 3}:
        return image
    if len(image) == 1:
        return image.repeat(3, 1, 1)
    red, green, blue = image.to(torch.int32)  # ITU-R 601, rounded as Pillow does it
    gray: Tensor = (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16
    return gray.to(torch.uint8)[None]


def picture_numbers(pictures: Iterable[Any], shape: tuple[int, ...] | None = None) -> list[Tensor]:
    """Pictures (channels, height, width) uint8 as a model reads them: float32 from -1 to 1 each, with as many channels
    as the `shape` of those of training. Raises InputError for a picture of another size, and for what is none."""
    numbers = []
    for place, picture in enumerate(pictures, 1):
        if not isinstance(picture, Tensor):
            raise InputError("expected a picture, not a text")
        if shape is not None:
            picture = with_channels(picture, shape[0])
            if tuple(picture.shape) != shape:
                expected, actual = (" x ".join(map(str, size)) for size in (shape, picture.shape))
                raise InputError(
                    f"picture {place}: this model reads pictures of {expected} (channels, height, width), and this"
                    f" one has {actual}: make it of that size first"
                )
        if picture.dtype != torch.uint8 or picture.dim() != 3:
            raise InputError(
                "a picture is a tensor (channels, height, width) of whole numbers from 0 to 255 (torch.uint8); this"
                f" one is {str(picture.dtype).removeprefix('torch.')} of the shape {tuple(picture.shape)}"
            )
        numbers.append(picture.float() / 127.5 - 1)
    return numbers


def picture_of(value: Any, place: str, folder: Path, channels: int | None) -> Tensor | PictureFile:
    """The picture that a column holds: a file's name, bytes, {"bytes": ...} as in hub data sets, or an image."""
    if isinstance(value, list) and value:
        if len(value) > 1:
            raise DataError(f"{place}: names {len(value)} pictures, and one is read; give each a row of its own")
        (value,) = value
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes) or (isinstance(value, str) and value.strip()):
        return PictureFile(folder / value if isinstance(value, str) else value, place, channels)
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "convert"):
        return pixels(value, channels)
    raise DataError(f"{place}: names no picture here: {value!r}"[:200])


def pictures_of(
    value: Any, place: str, folder: Path, channels: int | None
) -> Tensor | PictureFile | PictureFiles:
    """The picture that a column holds, or several in a list, which a text may be as JSON has it."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(Malformed):
            value = parse_json(value)
    if not isinstance(value, (list, tuple)) or len(value) < 2:
        return picture_of(list(value) if isinstance(value, tuple) else value, place, folder, channels)
    each = (picture_of(one, f"{place}, picture {number}", folder, channels) for number, one in enumerate(value, 1))
    return PictureFiles(tuple(each))


def captions_of(folder: Path) -> tuple[Path, str]:
    """The file of captions in a folder, and the column that names the pictures."""
    files = [folder / name for name in CAPTIONS if (folder / name).is_file()]
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        raise DataError(f"expected one file of captions, {' or '.join(CAPTIONS)}; found: {names}", path=folder)
    path = files[0]
    _, row = next(iter(formats.get(path.suffix[1:]).read(path, Options(header=True))), (0, {}))
    naming = next((name for name in NAMING if name in row), None)
    if naming is not None:
        return path, naming
    _, text = next(lines_of(path))
    message = f"has no column that names pictures (one of {', '.join(NAMING)}): {text[:100]!r}; name its columns in the"
    raise DataError(f"{message} first line, as in file_name and text, or name the file itself", path=path, line=1)


def is_idx(path: Path) -> bool:
    """Whether a file is IDX: no text begins with two zero bytes."""
    with open_binary(path) as file:
        start = read_checked(lambda: file.read(4), path, 1)
    return len(start) == 4 and start[:2] == b"\0\0"


def idx_values(path: Path, channels: int | None = None) -> Iterator[tuple[int, str | Tensor]]:
    """(number, value) of an IDX file: numbers of one dimension as text, pictures of two or, with channels, three.
    Raises DataError where the file is cut, longer than it says, or holds something else than unsigned bytes."""

    def take(count: int, line: int) -> bytes:
        return read_checked(lambda: file.read(count), path, line)

    def refusal(message: str, line: int | None = None) -> DataError:
        return DataError(message, path=path, line=line)

    with open_binary(path) as file:
        head = take(4, 1)
        if len(head) < 4 or head[2] != 8:
            raise refusal("is IDX of another type than unsigned bytes (8); pictures and labels are of that")
        count = head[3]
        raw = take(4 * count, 1)
        if count not in (1, 3, 4) or len(raw) < 4 * count:
            raise refusal(f"is IDX of {count} dimensions, or cut; expected 1 (labels), 3 or 4 (pictures)")
        rows, *shape = struct.unpack(f">{count}I", raw)
        size = math.prod(shape)
        if not 1 <= size <= MAX_PIXELS:
            message = f"its head says {' x '.join(map(str, shape))} bytes a picture; expected 1 to {MAX_PIXELS:,}"
            raise refusal(f"{message}: it is damaged; copy it again")
        for number in range(1, rows + 1):
            content = take(size, number)
            if len(content) < size:
                raise refusal(f"ends here; its head says {rows:,} rows; copy it again", number)
            if not shape:
                yield number, str(content[0])
                continue
            image = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape([1] * (4 - count) + shape)
            if channels is not None and len(image) not in (1, channels):
                raise refusal(f"has {len(image)} channels; asked for {channels}", number)
            yield number, image.repeat(channels, 1, 1) if channels is not None and len(image) != channels else image
        if take(1, rows):
            raise refusal(f"goes on after the {rows:,} rows that its head says; copy it again", rows)
