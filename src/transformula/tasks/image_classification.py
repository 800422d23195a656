"""Classification of pictures: which digit, which animal. A picture is cut into patches, which an encoder reads."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from ..data.pictures import PictureFile
from ..data.records import Record, columns_of, read_records, unknown_column
from ..data.settings import KeptLabels, StratifiedSettings
from ..data.splits import SplitRows
from ..errors import CheckpointError, ConfigError, InputError
from ..language.graph import Architecture
from .base import EVALUATION_COST, Batch, task
from .class_weights import ClassWeights
from .label_spelling import strip_labels
from .labels import LabelPredictor, LabelReader, LabelTask, by_baseline, classes_of
from .picture_processing import FILE as PROCESSING
from .picture_processing import read_processing
from .picture_rows import COLORS, PictureReading, PictureRow, made_size
from .predictor import OfOthers, predictor
from .row_predictor import EncodedRow
from .rows import evaluation_of
from .scores.baselines import most_frequent_label
from .scores.linear import linear_pixels, nearest_mean
from .seq2seq_data import channels_of

IMAGES = ("image", "picture", "file", "path", "source")  # what the names of columns begin with
LABELS = ("label", "class", "category", "caption", "target")


class ImageSettings(PictureReading, KeptLabels, StratifiedSettings):
    """Pictures with their labels, and how those of training are varied."""

    image: str | None = Field(None, description="the column of the picture; by default the one whose name says so")
    label: str | None = Field(None, description="the column of the label; by default the one whose name says so")
    shift: float = Field(0.0, ge=0, le=0.5, description="in training, move pictures by up to this share of their size")
    rotate: float = Field(0.0, ge=0, le=180, description="in training, turn pictures by up to so many degrees")
    zoom: float = Field(0.0, ge=0, lt=1, description="in training, scale pictures by up to this share")
    flip: bool = Field(False, description="in training, mirror half of the pictures, left to right")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of each label spread over all labels")
    class_weights: ClassWeights = None


@predictor("image-classifier")
@dataclass(frozen=True)
class ImageClassifier(LabelPredictor):
    """
    picture     (channels, height, width) of what it reads
    processing  how a picture of any size becomes that, as a folder of transformers says; None: a picture has that size,
                and its numbers are value / 127.5 - 1
    """

    picture: list[int]
    processing: dict[str, Any] | None = field(default=None, kw_only=True)

    reads = "pictures"

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained. Raises CheckpointError."""
        labels, kind, inputs = model.labels, model.config.get("problem_type"), list(model.architecture.inputs)
        if kind == "regression" or len(labels) == 1:
            raise CheckpointError("its output is a number of its own, not a class, and no verb reads one")
        processing, picture = processing_of_others(model.folder, model.architecture)
        several = kind == "multi_label_classification"
        return cls(None, inputs, 0, False, labels, several, picture, processing=processing)

    def alike(self) -> tuple[Any, ...]:
        return (*super().alike(), list(self.picture), self.processing)

    def input_of(self, record: Record) -> Any:
        return record

    def opened(self, inputs: Sequence[Any]) -> list[Any]:
        """Pictures: tensors (channels, height, width) uint8, or the names of files."""
        opened: list[Any] = []
        for number, each in enumerate(inputs, 1):
            if isinstance(each, (str, Path)):
                white = self.processing is None
                each = PictureFile(Path(each).expanduser(), f"input {number}", self.picture[0], white).load()
            if not isinstance(each, Tensor) or each.dtype != torch.uint8 or each.dim() != 3:
                raise InputError(
                    f"source {number}: this model reads pictures: give the name of a file, or a tensor (channels,"
                    " height, width) of whole numbers from 0 to 255 (torch.uint8)"
                )
            opened.append(each)
        return opened

    def encode(self, inputs: Sequence[Any]) -> list[EncodedRow]:
        return [
            PictureRow(
                each, self.picture, each.place if isinstance(each, Record) else f"picture {number}", self.processing
            )
            for number, each in enumerate(inputs, 1)
        ]

    def lengths(self, rows: Sequence[EncodedRow]) -> np.ndarray:
        return np.full(len(rows), math.prod(self.picture[1:]) // 16, dtype=np.int64)  # about as many as its patches


def processing_of_others(folder: Path, architecture: Architecture) -> tuple[dict[str, Any], list[int]]:
    """How a picture becomes numbers for the model in a folder of transformers, and the (channels, height, width) that
    it then has. Raises CheckpointError where the folder does not say it, and where it makes pictures of any size, or
    other ones than the model's text has positions for."""
    channels = channels_of(architecture).get("channels", COLORS)
    processing = read_processing(folder, channels)
    side = int(architecture.numbers.get("side", 0))  # of pictures that have a position for each patch
    made = made_size(processing, folder, side)
    if side and made != (side, side):
        what = f"{folder / PROCESSING}: makes pictures of {made[0]} x {made[1]} pixels"
        raise CheckpointError(f"{what}, and the model reads {side} x {side}; write that as `size` or crop_size")
    return processing, [channels, *made]


class LabeledPictures(LabelReader):
    """Records with the fields `image` and `label`."""

    compared = ("image",)

    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
        columns = picture_columns(sources, settings)
        records = read_records(sources, columns, images=["image"], **settings.reading, empty="keep")
        return strip_labels(records.read_all(key, notes), key, False, notes)

    def shown(self, record: Record) -> tuple[str, list[str]]:
        """Where the picture lies: its file, or the row of the file that holds it."""
        return record.place, [str(record["label"])]

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> ImageClassifier:
        labels = classes_of(rows.training, False, settings.kept_labels)
        processing, shape = settings.read_as(rows.training[0]["image"], sizes.get("channels"))
        (channels, *size), patch = shape, sizes.get("patch", 1)
        if any(side % patch for side in size):
            raise ConfigError(
                f"patch: pictures of {size[0]} x {size[1]} pixels are not cut into squares of {patch} x {patch}; say"
                f" --patch {math.gcd(*size)} or another divisor of both"
            )
        sizes |= {"classes": len(labels), "channels": channels, "places": math.prod(side // patch for side in size)}
        return ImageClassifier(None, list(inputs), 0, False, labels, False, list(shape), processing=processing)


@task("image-classification")
class ImageClassification(LabelTask):
    """Pictures with labels. Those of training may be moved, turned, scaled and mirrored: a function of the step."""

    unit = "pictures"
    sequences = 64
    settings = ImageSettings
    evaluation = evaluation_of(ImageSettings, "image", "label")
    reader = LabeledPictures()
    others = ImageClassifier.of_others
    trivial = {
        "most frequent label": by_baseline(most_frequent_label, "label"),
        "nearest mean": by_baseline(nearest_mean, "image"),
        "logistic regression": by_baseline(linear_pixels, "image"),
    }
    model = {
        "family": "encoder",
        "before": "p = patches(image, patch, channels=channels)\nx = p + positions(p, rows=places)",
        "output": "logits = linear(mean(x), classes)",
        "patch": "4",
        "channels": "1",
        "places": "49",
        "classes": "2",
    }

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
        """The side of a patch, and the channels that the text says the model reads, unless they are the default."""
        numbers = {key: int(architecture.numbers[key]) for key in ("patch",) if key in architecture.numbers}
        channels = channels_of(architecture)
        default = channels == {"channels": int(cls.model["channels"])} and "channels" in architecture.text.numbers
        return {**numbers, **({} if default else channels)}

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        if set(architecture.inputs) != {"image"}:
            raise InputError(
                f"{cls.name} gives a model `image` alone; this one reads {', '.join(architecture.inputs) or 'nothing'}:"
                " write a `before` that cuts it into patches: --before 'p = patches(image, 4, channels=1); x = p +"
                " positions(p, rows=49)'"
            )
        super().check(architecture)

    def cost_of(self, rows: int) -> float:
        return EVALUATION_COST * rows

    def batch(self, step: int, micro: int = 0) -> Batch:
        batch, settings = super().batch(step, micro), self.data.settings
        if not (settings.shift or settings.rotate or settings.zoom or settings.flip):
            return batch
        random = np.random.default_rng((self.seed, step, micro, 5))
        images = batch.inputs["image"]
        moves = torch.from_numpy(affine(settings, len(images), random)).float()
        grid = F.affine_grid(moves, list(images.shape), align_corners=False)
        varied = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
        return Batch({"image": varied}, batch.targets)


def affine(settings: ImageSettings, count: int, random: np.random.Generator) -> np.ndarray:
    """(count, 2, 3): where each pixel of a varied picture is taken from, in coordinates from -1 to 1."""
    angles = np.deg2rad(random.uniform(-settings.rotate, settings.rotate, count))
    scales = 1 + random.uniform(-settings.zoom, settings.zoom, count)
    mirrored = np.where(settings.flip & (random.random(count) < 0.5), -1.0, 1.0)
    shifts = 2 * random.uniform(-settings.shift, settings.shift, (2, count))
    cosine, sine = np.cos(angles) * scales, np.sin(angles) * scales
    return np.stack([cosine * mirrored, -sine, shifts[0], sine * mirrored, cosine, shifts[1]], -1).reshape(-1, 2, 3)


def picture_columns(sources: Any, settings: ImageSettings) -> dict[str, str | int]:
    """Which columns are the picture and the label: by their names, and of two the other one. Raises ConfigError where
    nothing says so."""
    names, _ = columns_of(sources, **settings.reading)
    chosen: dict[str, str | int] = {}
    for key, begins in (("image", IMAGES), ("label", LABELS)):
        column = getattr(settings, key) or next((n for start in begins for n in names if n.startswith(start)), None)
        others = [name for name in names if name not in chosen.values()]
        column = column or (others[0] if chosen and len(others) == 1 else None)
        if column is None:
            raise unknown_column(key, sources, names, names[0 if key == "image" else -1])
        chosen[key] = column
    return chosen
