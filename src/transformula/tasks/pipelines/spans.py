"""The part of a text that answers a question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..pipeline import RowPipeline, pipeline
from ..question_answering import Answering

SEPARATOR = "\t"


@pipeline("answering")
class SpanPipeline(RowPipeline[Answering]):
    texts = 2
    scored = True

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        return {
            **super().plain(),
            "cut": "windows",
            "stride": kind.stride,
            "longest": kind.longest,
            "unanswerable": kind.unanswerable,
            "threshold": kind.threshold,
            "separator": SEPARATOR,
            "decoding": "of a window, softmax over the text's positions and position 0, which says that there is no"
            " answer: P(start) P(end); the best span of all windows",
        }

    @property
    def unscripted(self) -> str:
        reads = "match" in self.predictor.inputs
        return "the model reads which words of the two texts have one stem (`match`)" if reads else super().unscripted

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        return [f"{question}{SEPARATOR}{text}" for question, text in zip(texts, texts[1:], strict=False)]

    def inputs(self, lines: Sequence[str]) -> list[dict[str, str]]:
        return [dict(zip(self.predictor.columns, line.split(SEPARATOR, 1), strict=True)) for line in lines]
