"""Translation: from parallel rows to BLEU with its signature."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.record import Record
from ..data.source_target import texts_of
from .base import task
from .scores.baselines import copy, word_by_word
from .scores.report import translation
from .seq2seq import Scoring, SequenceToSequence
from .seq2seq_data import FileRows


def baselines(records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
    """The source itself, and its words one by one."""
    sources = texts_of(records, "source")
    found = {"copy": copy(sources)}
    if learned:
        found["word by word"] = word_by_word(texts_of(learned, "source"), texts_of(learned, "target"), sources)
    return found


@task("translation", needs=["sacrebleu"])
class Translation(SequenceToSequence):
    """Text in one language to text in another. BLEU, cased, is the main score."""

    source = FileRows("cldr-dates:en-de")
    scoring = Scoring(translation, ("bleu", "bleu_lower_cased", "chrf2"), baselines)
