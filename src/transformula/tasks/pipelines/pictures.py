"""The label of a picture; the vector of a picture or a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..image_classification import ImageClassifier
from ..image_text_retrieval import SUFFIXES, ImageTextEmbedder
from ..pipeline import SCRIPTS, Pipeline, RowPipeline, pipeline

MODES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}  # of pictures that are tried, with their channels
PIXELS = "from -1 to 1: value / 127.5 - 1"


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
        return {
            "inputs": list(kind.inputs),
            "picture": list(kind.picture),
            "pixels": PIXELS,
            "labels": list(kind.labels),
            "several": False,
            "decoding": "softmax; the highest",
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        return draw_pictures(folder, self.predictor.picture)
