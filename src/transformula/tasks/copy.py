"""Copy: a row of symbols -> the same row. "kqbd" -> "kqbd"."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..data.record import Record
from ..data.source_target import texts_of
from .base import task
from .generated_pairs import GeneratedPairs, SymbolSettings
from .scores.baselines import constant


@task("copy")
class Copy(GeneratedPairs):
    """A row as it is. That trivial answer is the right one, so the constant one alone is beside it."""

    @classmethod
    def row(cls, settings: SymbolSettings, length: int, chance: Random) -> tuple[str, str]:
        source = "".join(chance.choices(cls.alphabet(settings), k=length))
        return source, source

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        targets = texts_of(learned, "target")
        return {"constant": constant(targets, len(records))} if targets else {}
