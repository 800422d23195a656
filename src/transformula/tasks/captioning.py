"""Captioning: from pictures with texts to BLEU and exact match."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.record import Record
from ..data.source_target import texts_of
from .base import task
from .pairs import Pairs
from .scores.baselines import constant
from .scores.measured import Measured, References
from .scores.report import captioning


@task("captioning", needs=["sacrebleu"])
class Captioning(Pairs):
    """A picture to a text. BLEU is the main score; the commonest caption is the baseline."""

    usual = "digits"
    pictures = True
    usage = "caption RUN PICTURE"
    measures = ("loss", "perplexity", "bleu", "exact_match")
    higher = frozenset(("bleu", "exact_match"))

    @classmethod
    def measure(cls, predictions: Sequence[str], references: References) -> list[Measured]:
        return captioning(predictions, references)

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        targets = texts_of(learned, "target")
        return {"constant": constant(targets, len(records))} if targets else {}
