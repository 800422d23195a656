"""Recall: pairs of a key and a value, then one of the keys -> its value. "c9k8j3?k" -> "8".

Source: Ba et al. 2016, Using Fast Weights to Attend to the Recent Past (associative retrieval).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from string import digits
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from ..data.record import Record
from ..data.source_target import texts_of
from .base import task
from .generated_pairs import FURTHER, SYMBOLS, GeneratedPairs, SymbolSettings
from .scores.baselines import constant

LETTERS = SYMBOLS.rstrip(digits)


class RecallSettings(SymbolSettings):
    """The length of a row is its number of pairs. No key stands twice in a row."""

    symbols: int = Field(26, ge=2, le=len(LETTERS), description="different keys: small letters, then capital ones")

    @field_validator("symbols")
    @classmethod
    def _enough(cls, value: int, info: ValidationInfo) -> int:
        most = info.data.get("longest", 1) + FURTHER
        if most > value:
            raise ValueError(
                f"rows that measure have up to {most} pairs ({FURTHER} more than --longest), all of different keys;"
                f" take {most} keys, or a smaller --longest"
            )
        return value


@task("recall")
class Recall(GeneratedPairs):
    """The value of a key; values are digits. The last value of a row is the baseline beside the commonest digit."""

    settings = RecallSettings

    @classmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        keys = chance.sample(LETTERS[: settings.symbols], length)
        values = chance.choices(digits, k=length)
        asked = chance.randrange(length)
        return "".join(k + v for k, v in zip(keys, values, strict=True)) + "?" + keys[asked], values[asked]

    @classmethod
    def alphabet(cls, settings: Any) -> str:
        return LETTERS[: settings.symbols] + digits + "?"

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        found = {"last value": [str(row["source"])[-3] for row in records]}
        targets = texts_of(learned, "target")
        return {**found, "constant": constant(targets, len(records))} if targets else found
