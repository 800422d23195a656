"""The label of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..image_classification import ImageClassifier
from ..pipeline import Pipeline, pipeline

PICTURES = 4  # that are tried


@pipeline("image-classifier")
class PicturePipeline(Pipeline[ImageClassifier]):
    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        return {
            "inputs": list(kind.inputs),
            "picture": list(kind.picture),
            "pixels": "from -1 to 1: value / 127.5 - 1",
            "labels": list(kind.labels),
            "several": False,
            "decoding": "softmax; the highest",
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        """Names of pictures, which are drawn: of the model's channels, of others, and with transparency."""
        from PIL import Image

        draw, (_, *size), names = np.random.default_rng(1), self.predictor.picture, []
        for number, mode in enumerate(("L", "RGB", "RGBA", "LA") * (PICTURES // 4)):
            channels = (len(Image.new(mode, (1, 1)).getbands()),) if mode != "L" else ()
            coarse = draw.integers(256, size=(*(-(-side // 4) for side in size), *channels), dtype=np.uint8)
            array = coarse.repeat(4, 0).repeat(4, 1)[: size[0], : size[1]]
            names.append(str(folder / f"{number}.png"))
            Image.fromarray(array, mode).save(names[-1])
        return names

    def answers(self, module: Any, lines: Sequence[str]) -> list[str]:
        return [f"{best.text}\t{best.score:.4f}" for best in self.predicted(module, lines)]
