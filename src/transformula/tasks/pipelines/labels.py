"""The labels of a text, or of a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..classification import PAIR_SEPARATOR, Classifier
from ..labels import HALF
from ..pipeline import RowPipeline, pipeline


@pipeline("classifier")
class LabelPipeline(RowPipeline[Classifier]):
    scored = True

    def __init__(self, predictor: Classifier) -> None:
        super().__init__(predictor)
        self.texts = 1 + bool(predictor.pair)

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        return {
            **super().plain(),
            "pair": bool(kind.pair),
            "separator": PAIR_SEPARATOR if kind.pair else None,
            "labels": list(kind.labels),
            "several": kind.several,
            "threshold": HALF if kind.several else None,
            "decoding": "sigmoid; each label from the threshold on" if kind.several else "softmax; the highest",
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        pairs = pairwise([*texts, *texts[:1]])
        return [f"{text}{PAIR_SEPARATOR}{other}" for text, other in pairs] if self.predictor.pair else list(texts)
