"""Translation: from parallel rows to BLEU with its signature."""

from __future__ import annotations

from typing import Any

from .base import task
from .bleu_tokenizer import BleuEvaluation, BleuSettings, with_bleu_tokenizer
from .scores.baselines import copy_source, word_by_word
from .scores.measured import Measured, bleu, chrf
from .seq2seq import SequenceToSequence
from .seq2seq_data import RowSource


def by_bleu(texts: Any, right: Any, bleu_tokenizer: str = "13a") -> list[Measured]:
    cased, lowercase = (bleu(texts, right, lowercase=lower, tokenize=bleu_tokenizer) for lower in (False, True))
    return [cased, lowercase, chrf(texts, right)]


@task("translation", needs=["sacrebleu"])
class Translation(SequenceToSequence):
    """Text in one language to text in another. BLEU, cased, is the main score; lower-cased as older papers print it."""

    source = RowSource("cldr-dates:en-de")
    settings = BleuSettings
    evaluation = BleuEvaluation
    measure = staticmethod(by_bleu)
    options = staticmethod(with_bleu_tokenizer)
    scores = ("bleu", "bleu_lower_cased", "chrf2")
    trivial = {"copy": copy_source, "word by word": word_by_word}
