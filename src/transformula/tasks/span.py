"""Span corruption, as T5 is pre-trained: spans are taken out of a text, and a model writes what stood there.

text     Thank you for inviting me to your party last week
source   Thank you <1> me to your party <2> week
target   <1> for inviting <2> last
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field

from ..data.damage import hidden_spans, hide_spans
from ..data.settings import TextSettings
from ..errors import ConfigError
from .base import task
from .repairing import Repairing


class SpanSettings(TextSettings):
    """What is taken out of a text."""

    rate: float = Field(0.15, gt=0, le=0.5, description="share of the tokens that are taken out")
    mean_span: float = Field(3.0, ge=1, description="tokens of a span, on average")
    sentinels: int = Field(100, ge=1, description="ids that stand for spans: as many spans as a window has, at least")


@task("span")
class Span(Repairing):
    """Windows of text without some spans -> these spans, each after the sentinel that stands in its place."""

    settings = evaluation = SpanSettings

    @classmethod
    def extra(cls, settings: Any) -> int:
        return int(settings.sentinels)

    def ready(self) -> None:
        spans = len(hidden_spans(self.window, self.chosen.rate, self.chosen.mean_span, np.random.default_rng(0))[0])
        if spans > self.chosen.sentinels:
            raise ConfigError(
                f"sentinels: windows of {self.window} tokens have {spans} spans, and there are {self.chosen.sentinels}"
                f" sentinels; say --sentinels {spans}, or a smaller --context, or a larger --mean-span"
            )

    def damage(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        return hide_spans(ids, self.chosen.rate, self.chosen.mean_span, self.first, chance)

    def mark(self, number: int) -> str:
        return f"<{number + 1}>"
