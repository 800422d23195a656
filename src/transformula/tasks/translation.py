"""Translation: from parallel rows to BLEU with its signature."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.records import Record
from .base import task
from .pairs import Pairs
from .scores.baselines import copy
from .scores.measured import Measured, References
from .scores.report import translation


@task("translation")
class Translation(Pairs):
    """Text in one language to text in another. BLEU, cased, is the main score; the source itself is the baseline."""

    usual = "cldr-dates:en-de"
    measures = ("loss", "perplexity", "bleu", "bleu_lower_cased", "chrf2")
    higher = frozenset(("bleu", "bleu_lower_cased", "chrf2"))

    @classmethod
    def measure(cls, predictions: Sequence[str], references: References) -> list[Measured]:
        return translation(predictions, references)

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], targets: Sequence[str]) -> dict[str, list[str]]:
        return {"copy": copy([str(row["source"]) for row in records])}
