"""Translation: from parallel rows to BLEU with its signature."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.record import Record
from ..data.source_target import texts_of
from .base import task
from .pairs import Pairs
from .scores.baselines import copy, word_by_word
from .scores.measured import Measured, References
from .scores.report import translation


@task("translation", needs=["sacrebleu"])
class Translation(Pairs):
    """Text in one language to text in another.

    BLEU, cased, is the main score; the source itself and its words one by one are baselines.
    """

    usual = "cldr-dates:en-de"
    measures = ("loss", "perplexity", "bleu", "bleu_lower_cased", "chrf2")
    higher = frozenset(("bleu", "bleu_lower_cased", "chrf2"))

    @classmethod
    def measure(cls, predictions: Sequence[str], references: References) -> list[Measured]:
        return translation(predictions, references)

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        sources = texts_of(records, "source")
        found = {"copy": copy(sources)}
        if learned:
            found["word by word"] = word_by_word(texts_of(learned, "source"), texts_of(learned, "target"), sources)
        return found
