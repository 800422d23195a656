"""Denoising, as BART is pre-trained: a text in disorder and with gaps, and a model writes the whole again.

text     He left. She read a long book. It rained.
source   It rained. He <mask>. She read <mask> book.
target   He left. She read a long book. It rained.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from pydantic import Field

from ..data.damage import infill, reorder, sentence_ends
from ..data.settings import TextSettings
from ..tokenizers.base import Tokenizer
from .base import task
from .repairing import Damage, Repairing


class DenoisingSettings(TextSettings):
    """How a text is damaged."""

    rate: float = Field(0.3, gt=0, lt=1, description="share of the tokens that give way to masks")
    mean_span: float = Field(3.0, gt=0, description="tokens that one mask stands for, on average (Poisson): none, too")
    reorder: bool = Field(True, description="sentences change places")


class Disorder(Damage):
    """Windows of text, their sentences in another order, with one mask for each of some spans -> the window.

    A window may begin and end within a sentence; each such part moves as a sentence does.
    """

    def __init__(self, settings: DenoisingSettings, tokenizer: Tokenizer, window: int) -> None:
        super().__init__(settings, tokenizer, window)
        self.ends = sentence_ends(tokenizer)

    @staticmethod
    def extra(settings: DenoisingSettings) -> int:
        return 1

    def apply(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        source = reorder(ids, self.ends, chance) if self.settings.reorder else ids
        return infill(source, self.settings.rate, self.settings.mean_span, self.first, chance), ids

    def mark(self, number: int) -> str:
        return "<mask>"


@task("denoising")
class Denoising(Repairing):
    """Windows of text are disordered, and written again."""

    settings = evaluation = DenoisingSettings
    kind = Disorder
