"""The answer to a question about a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

from ...data.spelling import PLAIN
from ...tokenizers.base import FILE
from ..picture_answering import PictureAnswering
from ..picture_processing import steps_of
from ..pipeline import Pipeline, marks_of_ids, pipeline
from .pictures import BY_STEPS, PIXELS, draw_pictures
from .texts import TRIED_TOKENS, decoding

SEPARATOR = "\t"


@pipeline("picture-answering")
class PictureQuestionPipeline(Pipeline[PictureAnswering]):
    settings = {"beam": 1, "max_length": TRIED_TOKENS}
    tried = {"max_tokens": TRIED_TOKENS}

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        assert kind.picture is not None
        before, after = kind.target.marks.source
        steps = None if kind.processing is None else steps_of(kind.processing, kind.picture[0])
        return {
            "inputs": ["image", "tokens"],
            "lower": False,
            "spelling": asdict(kind.spelling),
            "reader": FILE,
            "marks": marks_of_ids(before, after),
            "types": [0],
            "most": None if kind.most is None else kind.most - kind.places,
            "cut": "end",
            "marker": kind.marker,
            "places": kind.places,
            "positions": None,
            "ends": sorted(kind.target.ends) or [kind.end],
            "max_tokens": kind.usual,
            "picture": list(kind.picture),
            "pixels": PIXELS if steps is None else BY_STEPS,
            "steps": steps,
            "separator": SEPARATOR,
            "decoding": "of `places` times the id `marker`, then the question: greedy; answer searches with a beam",
            **decoding(kind.target),
        }

    def limits(self, module: Any, context: int | None) -> dict[str, Any]:
        """A question for which the learned positions have no room is cut, and that is said; here it is refused."""
        learned = [count for count in (context, module.positions_of("tokens")) if count is not None]
        if not learned:
            return {}
        kind, room = self.predictor, min(learned) - self.predictor.places - 1
        return {"positions": min(learned), "most": min(room, (kind.most or min(learned)) - kind.places)}

    @property
    def unscripted(self) -> str:
        if self.predictor.blind:
            return "the model was trained on gray pictures alone"
        if self.predictor.templated:
            return "the model is asked by its chat template"
        return "texts are spelled otherwise for the model" if self.predictor.spelling != PLAIN else super().unscripted

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        """Each text about one of some pictures."""
        assert self.predictor.picture is not None
        pictures = draw_pictures(folder, self.predictor.picture)
        asked = [" ".join(text.split()) for text in texts]
        return [f"{text}{SEPARATOR}{name}" for text, name in zip(filter(None, asked), cycle(pictures), strict=False)]

    def inputs(self, lines: Sequence[str]) -> list[dict[str, str]]:
        return [dict(zip(self.predictor.columns, line.split(SEPARATOR, 1), strict=True)) for line in lines]
