"""What tasks on windows of a text share: language modeling, and the repair of damaged text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data.prepare import prepare
from ..data.preview import Preview
from ..data.windows import Windows
from .base import Task
from .evaluation import standing
from .writing import TextGenerator

CONTEXT = 128
"""Tokens of a window where the model's file does not say."""

EVALUATED_TOKENS = 8192
EVALUATED_LOGITS = 2**25
"""An evaluation's batch holds at most so many tokens, and so many logits (128 MiB in float32)."""


class TextTask(Task):
    """A task on windows of a text.

    data     text, made ready
    windows  of the training text, of `context` - `less` tokens; none where there is a validation text alone
    score_unit  the unit of the main score, of `baselines` and of `verdict`
    evaluated_at_once  how many windows an evaluation looks at together
    """

    row_name = "windows"
    score_unit: str

    def __init__(
        self,
        settings: Any,
        numbers: Mapping[str, Any],
        given: Mapping[str, Any],
        extra: int | None = None,
        cut: type[Windows] = Windows,
        less: int = 0,
    ) -> None:
        """From the arguments of `make`. `extra` are ids above the tokenizer's, see `prepare`."""
        vocab, context = numbers.get("vocab"), int(numbers.get("context") or CONTEXT)
        self.data = data = prepare(settings, None if vocab is None else int(vocab), extra)
        self.numbers = {"vocab": int(vocab or data.tokenizer.vocab + (extra or 0)), "context": context}
        self.seed = given.get("seed", 1)
        most = min(EVALUATED_TOKENS, EVALUATED_LOGITS // self.numbers["vocab"])
        self.evaluated_at_once = max(1, most // context)
        if not data.split.alone:
            batch, accumulate = given.get("batch") or self.sequences or 1, given.get("accumulate", 1)
            name = f"the training text of {data.corpus.name}"
            self.windows = cut(data.training.ids, context - less, batch, accumulate, self.seed, name)

    def verdict(self, scores: Mapping[str, float]) -> str:
        """For instance '1.72 bits per byte: below the 6-gram (1.92) and the 5-gram (2.00)'."""
        return f"{scores[self.score]:.2f} {self.score_unit}: {standing(scores[self.score], self.baselines())}"

    def steps(self, epochs: float) -> int:
        return self.windows.steps(epochs)

    def preview(self) -> Preview:
        return self.data.preview()

    def predictor(self) -> TextGenerator:
        return TextGenerator(self.data.tokenizer)
