"""Translation: from parallel rows to BLEU with its signature."""

from __future__ import annotations

from .base import task
from .scores.baselines import copied, word_by_word
from .scores.measured import bleu, chrf
from .seq2seq import SequenceToSequence
from .seq2seq_data import RowSource


@task("translation", needs=["sacrebleu"])
class Translation(SequenceToSequence):
    """Text in one language to text in another. BLEU, cased, is the main score; lower-cased as older papers print it."""

    source = RowSource("cldr-dates:en-de")
    measure = staticmethod(
        lambda texts, right: [bleu(texts, right), bleu(texts, right, lowercase=True), chrf(texts, right)]
    )
    scores = ("bleu", "bleu_lower_cased", "chrf2")
    trivial = {"copy": copied, "word by word": word_by_word}
