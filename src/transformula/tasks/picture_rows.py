"""How pictures become what a model reads, and the setting that says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import Tensor

from ..data.pictures import PictureFile, PictureFiles, with_channels
from ..data.records import Record
from ..data.splits import row_digest
from ..errors import CheckpointError, DataError, InputError
from ..settings import Settings
from .picture_processing import FILE as PROCESSING
from .picture_processing import Processing, processed, processing_in, size_made
from .seq2seq_data import picture_shape

COLORS = 3  # channels of a picture where nothing says how many
PLAIN = "none"


class PictureReading(Settings):
    """How pictures become numbers."""

    preprocessing: str | None = Field(
        None, min_length=1, description="how pictures of any size become numbers: a folder whose"
        " preprocessor_config.json says it, or none: pictures of one size, value / 127.5 - 1; by default as the model"
        " of --init-from reads them",
    )  # fmt: skip

    def read_as(self, picture: Any, channels: int | None) -> tuple[dict[str, Any] | None, tuple[int, ...]]:
        """How pictures become numbers, None for value / 127.5 - 1, and the (channels, height, width) that these have.

        picture   the first of training
        channels  that the model says it reads; None: as many as the picture has

        Raises CheckpointError, and ConfigError for pictures that cannot be made to have so many.
        """
        if self.preprocessing in (None, PLAIN):
            shape = picture_shape(picture, channels)
            assert shape is not None
            return None, shape
        channels = COLORS if channels is None else channels
        processing = processing_in(Path(self.preprocessing).expanduser(), channels)
        return processing, (channels, *made_size(processing, self.preprocessing))


class SharedPictures:
    """Which pictures stand in one row with which others: rows that share one, or that are joined by rows which do, have
    one key.

    digests  of pictures, by the file that holds each
    joined   whether any row has several
    """

    def __init__(self) -> None:
        self.digests: dict[Path | bytes, str] = {}
        self.joined = False
        self._above: dict[str, str] = {}

    def key(self, digest: str) -> str:
        """The least digest of all pictures that are joined with one."""
        while (above := self._above.get(digest, digest)) != digest:
            digest = above
        return digest

    def of(self, held: Any, place: str) -> list[str]:
        """The digests of a row's pictures, which are joined. Raises DataError for one that cannot be read."""
        digests = [self._digest(one, place) for one in each_of(held)]
        self.joined |= len({*digests}) > 1
        keys = sorted({*map(self.key, digests)})
        self._above |= dict.fromkeys(keys[1:], keys[0])
        return digests

    def _digest(self, held: Any, place: str) -> str:
        if not isinstance(held, PictureFile):
            return row_digest(Record({"image": held}, place)).hex()
        if held.file not in self.digests:
            self.digests[held.file] = row_digest(Record({"image": held}, place)).hex()
        return self.digests[held.file]


def each_of(held: Any) -> list[Any]:
    """A row's pictures, one or several, each as it is kept."""
    if isinstance(held, PictureFiles):
        return list(held.pictures)
    return list(held) if isinstance(held, (list, tuple)) else [held]


class PictureRow(Mapping[str, Tensor]):
    """What a model reads of a picture, which is loaded when it is asked for: pixels, or with a `processing` numbers."""

    def __init__(self, source: Any, shape: Sequence[int], name: str, processing: Processing | None = None) -> None:
        self.source, self.shape, self.name, self.processing = source, tuple(shape), name, processing

    def __getitem__(self, name: str) -> Tensor:
        if name != "image":
            raise KeyError(name)
        image: Any = self.source.held("image") if isinstance(self.source, Record) else self.source
        if isinstance(image, PictureFile):
            image = replace(image, white=self.processing is None).load()
        image = with_channels(image, self.shape[0])
        if self.processing is not None and len(image) == self.shape[0]:
            image = processed(image, self.processing)
        if tuple(image.shape) != self.shape:
            expected, actual = (" x ".join(map(str, size)) for size in (self.shape, image.shape))
            raise DataError(
                f"{self.name}: this model reads pictures of {expected} (channels, height, width), and this one has"
                f" {actual}: make it of that size first"
            )
        checked: Tensor = image
        return checked

    def __iter__(self) -> Iterator[str]:
        return iter(("image",))

    def __len__(self) -> int:
        return 1


def opened_picture(kind: Any, picture: Any, place: str) -> Tensor:
    """A picture for a predictor, read from its file. Raises DataError, InputError for what is none."""
    if isinstance(picture, (str, Path)):
        channels = None if kind.picture is None else kind.picture[0]
        picture = PictureFile(Path(picture).expanduser(), place, channels)
    if isinstance(picture, PictureFile):
        picture = replace(picture, white=kind.processing is None).load()
    if not isinstance(picture, Tensor):
        raise InputError(f"{place}: a picture is the name of a file, or a tensor; this is {picture!r:.40}")
    return picture


def made_size(processing: Processing, folder: str | Path, side: int = 0) -> tuple[int, int]:
    """The (height, width) of what a processing makes; where that depends on the picture, `side`, which the picture then
    must have. Raises CheckpointError where nothing says it."""
    made = size_made(processing) or (side, side)
    if not all(made):
        what = f"{folder}: the pictures that {PROCESSING} makes have no size of their own"
        raise CheckpointError(f"{what}; write height and width as `size`, or crop_size and do_center_crop")
    return made
