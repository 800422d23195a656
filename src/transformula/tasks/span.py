"""Span corruption, as T5 is pre-trained: spans are taken out of a text, and a model writes what stood there.

text     Thank you for inviting me to your party last week
source   Thank you <1> me to your party <2> week
target   <1> for inviting <2> last
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from pydantic import Field

from ..data.damage import hidden_spans, hide_spans
from ..data.settings import TextSettings
from ..errors import ConfigError
from ..tokenizers.base import Tokenizer
from .base import task
from .repairing import Damage, Repairing


class SpanSettings(TextSettings):
    """What is taken out of a text."""

    rate: float = Field(0.15, gt=0, le=0.5, description="share of the tokens that are taken out")
    mean_span: float = Field(3.0, ge=1, description="tokens of a span, on average")
    sentinels: int = Field(100, ge=1, description="ids that stand for spans: as many spans as a window has, at least")


class HiddenSpans(Damage):
    """Windows of text without some spans -> these spans, each after the sentinel that stands in its place."""

    def __init__(self, settings: SpanSettings, tokenizer: Tokenizer, window: int) -> None:
        super().__init__(settings, tokenizer, window)
        spans = len(hidden_spans(window, settings.rate, settings.mean_span, np.random.default_rng(0))[0])
        if spans > settings.sentinels:
            raise ConfigError(
                f"sentinels: windows of {window} tokens have {spans} spans, and there are {settings.sentinels}"
                f" sentinels; say --sentinels {spans}, or a smaller --context, or a larger --mean-span"
            )

    @staticmethod
    def extra(settings: SpanSettings) -> int:
        return settings.sentinels

    def apply(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        return hide_spans(ids, self.settings.rate, self.settings.mean_span, self.first, chance)

    def mark(self, number: int) -> str:
        return f"<{number + 1}>"


@task("span")
class SpanCorruption(Repairing):
    """Spans are taken out of windows of text, and written."""

    settings = evaluation = SpanSettings
    kind = HiddenSpans
