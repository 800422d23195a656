"""What goes on with a text, writes one for a text, or fills its gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tokenizers as library

from ...data.spelling import PLAIN
from ...errors import InputError
from ...tokenizers.base import FILE, Tokenizer
from ...tokenizers.pretrained import CLEANED, Pretrained
from ..masked_language_modeling import Filling
from ..masking import marks_of, mask_of
from ..pipeline import Pipeline, marks_of_ids, pipeline
from ..replaced_token_detection import Detecting
from ..writing import SOURCE, TextGenerator, Writing
from .pictures import draw_pictures

WRITTEN_TOKENS = 200  # at most, after a prompt
TRIED_TOKENS = 8  # the same while a script is tried


def decoding(tokenizer: Tokenizer) -> dict[str, Any]:
    """How ids become text. `cleaned`: what loses its blanks, one after the other."""
    cleans = isinstance(tokenizer, Pretrained) and tokenizer.cleans
    return {"vocab": tokenizer.vocab, "cleaned": list(CLEANED) if cleans else []}


@pipeline("generation")
class GenerationPipeline(Pipeline[TextGenerator]):
    settings = {"temperature": 0, "max_tokens": TRIED_TOKENS}
    tried = {"max_tokens": TRIED_TOKENS}

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        try:
            empty = kind.begin("")
        except InputError:
            empty = None
        return {
            "before": list(kind.tokenizer.marks.prompt),
            "empty": empty,
            "ends": sorted(kind.tokenizer.ends),
            "max_tokens": WRITTEN_TOKENS,
            "decoding": "greedy; sample draws",
            **decoding(kind.tokenizer),
        }


@pipeline("writing")
class WritingPipeline(Pipeline[Writing]):
    settings = {"beam": 1, "max_length": TRIED_TOKENS}
    tried = {"max_tokens": TRIED_TOKENS}

    def plain(self) -> dict[str, Any]:
        kind, source = self.predictor, self.predictor.source
        marks = source.marks.source if source else ((), ())
        return {
            "inputs": [kind.input],
            "lower": False,
            "spelling": asdict(kind.spelling),
            "reader": f"{SOURCE}/{FILE}" if source is not kind.target else FILE,
            "marks": marks_of_ids(*marks),
            "types": [0],
            "most": kind.most,
            "cut": "end",
            "begin": list(kind.target.marks.target) or [kind.end],
            "ends": sorted(kind.target.ends) or [kind.end],
            "max_tokens": kind.usual,
            "picture": kind.picture and list(kind.picture),
            "decoding": "greedy; translate searches with a beam of 5",
            **decoding(kind.target),
        }

    def limits(self, module: Any, context: int | None) -> dict[str, Any]:
        """A source that is longer than the positions that are learned is cut, and that is said; here it is refused."""
        each = (self.predictor.most, context, module.positions_of(self.predictor.input))
        known = [count for count in each if count is not None]
        return {"most": min(known)} if known else {}

    @property
    def unscripted(self) -> str:
        return "names become their words" if self.predictor.spelling.split_names else super().unscripted

    def in_library(self) -> dict[str, library.Tokenizer]:
        """The tokenizer of what is read, which has the marks, and that of what is written."""
        kind = self.predictor
        own = {} if kind.source in (None, kind.target) else {f"{SOURCE}/{FILE}": kind.source.in_library()}
        return {**own, **super().in_library()}

    def ids(self, line: str) -> list[int] | None:
        plain = self.predictor.source is not None and self.predictor.spelling == PLAIN
        return list(self.predictor.ids([line])[0].tolist()) if plain else None

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        return draw_pictures(folder, self.predictor.picture) if self.predictor.picture else list(texts)


def around(kind: Filling | Detecting) -> dict[str, Any]:
    """The ids around a text that is read whole, and those that are no text."""
    marks = (kind.tokenizer.marks.opening, kind.tokenizer.marks.closing) if kind.documents else ((), ())
    return {"marks": marks_of_ids(*marks), "types": [0], "never": sorted(marks_of(kind.tokenizer))}


@pipeline("detecting")
class DetectingPipeline(Pipeline[Detecting]):
    def plain(self) -> dict[str, Any]:
        return {
            **around(self.predictor),
            "decoding": "tokens whose number `replaced` is above 0, in brackets",
            **decoding(self.predictor.tokenizer),
        }


@pipeline("filling")
class FillingPipeline(Pipeline[Filling]):
    def plain(self) -> dict[str, Any]:
        kind, tokenizer = self.predictor, self.predictor.tokenizer
        return {
            **around(kind),
            "sign": kind.settings().sign,
            "mask": mask_of(tokenizer),
            "blank": kind.parts("a [MASK]", "[MASK]")[0] == "a",
            "padding": {"side": "right", "id": 0},
            "decoding": "softmax at each gap; the highest",
            **decoding(tokenizer),
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        sign = self.predictor.settings().sign
        return [f"{text[: len(text) // 2]} {sign} {text[len(text) // 2 :]} a{sign}" for text in texts]
