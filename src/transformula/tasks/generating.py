"""Text from a language model: what it goes on with is a text, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from torch import nn

from ..errors import InputError
from ..generation import StoppingStream, generate
from ..generation.settings import SamplingSettings
from ..tokenizers.base import Tokenizer, load
from .predictor import Answer, Predictor, Progress


@dataclass(frozen=True)
class TextGenerator(Predictor):
    """Goes on with texts. Its folder is known by the tokenizer alone."""

    tokenizer: Tokenizer
    settings = SamplingSettings
    method = "generate"

    @property
    def continues(self) -> bool:
        return True

    @property
    def verb(self) -> str:
        return "sample"

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> list[list[Answer]]:
        return [[Answer(text)] for text in self.generate(models[0], inputs, settings)]

    def generate(
        self,
        module: nn.Module,
        prompts: Sequence[str],
        settings: SamplingSettings,
        on_text: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """What follows each prompt, without it. `on_text` is called with (row, piece of text) as it is written."""
        tokenizer = self.tokenizer
        end = tokenizer.end_of_document
        streams = [StoppingStream(tokenizer.stream(), stop=settings.stop, end=end) for _ in prompts]

        def heard(row: int, token: int) -> None:
            shown = streams[row].push(token)
            if shown and on_text is not None:
                on_text(row, shown)

        rows = [self.begin(text) for text in prompts]
        decoder: Any = module
        generate(decoder, rows, settings, finished=lambda row, _: streams[row].finished, on_token=heard)
        for row, stream in enumerate(streams):
            rest = stream.close()
            if rest and on_text is not None:
                on_text(row, rest)
        return [stream.text for stream in streams]

    def begin(self, prompt: str) -> list[int]:
        """The tokens of a prompt. An empty one begins as documents do: after the end of another, or a new line."""
        if prompt:
            return self.tokenizer.encode(prompt)
        if self.tokenizer.end_of_document is not None:
            return [self.tokenizer.end_of_document]
        try:
            return self.tokenizer.encode("\n")
        except InputError:
            raise InputError(
                "the prompt is empty, and the model's tokenizer has neither an end of documents nor a new line to begin"
                " after: give a prompt"
            ) from None

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(load(folder))
