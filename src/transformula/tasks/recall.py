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
from .algorithmic import FURTHER, SYMBOLS, Algorithmic, SymbolSettings
from .base import task
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
                f"evaluation rows have up to {most} pairs ({FURTHER} more than --longest), all of different keys;"
                f" take {most} keys, or a smaller --longest"
            )
        return value


def last_value(records: Sequence[Record], learned: Sequence[Record]) -> list[str]:
    """The last value of each row."""
    return [str(row["source"])[-3] for row in records]


@task("recall")
class Recall(Algorithmic):
    """The value of a key; values are digits. The last value of a row is the baseline beside the commonest digit."""

    settings = RecallSettings
    trivial = {"last value": last_value, "constant": constant}
    alphabet = staticmethod(lambda settings: LETTERS[: settings.symbols] + digits + "?")

    @classmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        keys = chance.sample(LETTERS[: settings.symbols], length)
        values = chance.choices(digits, k=length)
        place = chance.randrange(length)
        return "".join(k + v for k, v in zip(keys, values, strict=True)) + "?" + keys[place], values[place]
