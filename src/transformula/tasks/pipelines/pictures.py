"""The label of a picture; the vector of a picture or a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..image_classification import ImageClassifier
from ..image_text_retrieval import SUFFIXES, ImageTextEmbedder
from ..labels import HALF
from ..picture_processing import COMMON, FILE, TYPE, Processing, known, steps_of
from ..pipeline import SCRIPTS, Pipeline, RowPipeline, pipeline

MODES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}  # of pictures that are tried, with their channels
PIXELS = "from -1 to 1: value / 127.5 - 1"
BY_STEPS = "by the steps, in their order: resize, crops, factor, mean and std"


def draw_pictures(folder: Path, picture: Sequence[int]) -> list[str]:
    """The names of pictures that are drawn in a folder, of the size of `picture` (channels, height, width): in gray, in
    colors, and both with transparency."""
    from PIL import Image

    draw, (_, *size), names = np.random.default_rng(1), picture, []
    for mode, channels in MODES.items():
        coarse = draw.integers(256, size=(*(-(-side // 4) for side in size), channels), dtype=np.uint8)
        array = coarse.repeat(4, 0).repeat(4, 1)[: size[0], : size[1]]
        names.append(str(folder / f"{mode}.png"))
        Image.fromarray(array[:, :, 0] if channels == 1 else array).convert(mode).save(names[-1])
    return names


@pipeline("image-text")
class PictureTextPipeline(RowPipeline[ImageTextEmbedder]):
    def plain(self) -> dict[str, Any]:
        picture = {"picture": list(self.predictor.picture), "pixels": PIXELS, "suffixes": list(SUFFIXES)}
        about = {"pooling": "in the program, which gives one vector", "normalization": None, "similarity": "cosine"}
        return {**super().plain(), **picture, **about}

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        return [*texts, *draw_pictures(folder, self.predictor.picture)]


@pipeline("image-classifier")
class PicturePipeline(Pipeline[ImageClassifier]):
    scored = True
    script = SCRIPTS / "classifier.py"

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        steps = None if kind.processing is None else steps_of(kind.processing, kind.picture[0])
        return {
            "inputs": list(kind.inputs),
            "picture": list(kind.picture),
            "pixels": PIXELS if steps is None else BY_STEPS,
            "steps": steps,
            "labels": list(kind.labels),
            "several": kind.several,
            "threshold": HALF if kind.several else None,
            "decoding": "sigmoid; each label from the threshold on" if kind.several else "softmax; the highest",
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        channels, height, width = self.predictor.picture
        own = draw_pictures(folder, self.predictor.picture)
        if self.predictor.processing is None:
            return own
        (folder / "wide").mkdir()
        return [*own, *draw_pictures(folder / "wide", (channels, height + 3, 2 * width))]

    def companions(self, folder: Path) -> None:
        """Write how a picture becomes numbers, unless the folder that was read said it."""
        if not (folder / FILE).exists():
            kind = self.predictor
            write_processing(folder, plain_processing(kind.picture) if kind.processing is None else kind.processing)


def plain_processing(picture: Sequence[int]) -> dict[str, Any]:
    """What makes numbers from -1 to 1 of pictures of one size, (channels, height, width)."""
    channels, height, width = picture
    size, half = {"height": height, "width": width}, [0.5] * channels
    own = {"size": size, "resample": 2, "image_mean": half, "image_std": half}
    return {TYPE: known()["written"], **COMMON, **own}


def write_processing(folder: Path, processing: Processing) -> None:
    """Write preprocessor_config.json, so that transformers makes the same numbers."""
    said = {key: value for key, value in processing.items() if value is not None}
    (folder / FILE).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
