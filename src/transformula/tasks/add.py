"""Add: two numbers -> their sum. "123+45" -> "168".

Digits stand as people write them, the most significant first, as in most of the literature; so the first digit of a sum
may hang on every carry behind it. With `reversed` the sum is written from its least significant digit on ("861"), in
which order each digit needs but the carry of the one before; that is learned from far fewer examples.

Source: Lee et al. 2023, Teaching Arithmetic to Small Transformers (plain and reversed sums).
"""

from __future__ import annotations

from random import Random
from string import digits
from typing import Any

from pydantic import Field

from .algorithmic import Algorithmic, AlgorithmicSettings
from .base import task


class AddSettings(AlgorithmicSettings):
    """The length of a row is the number of digits of its longer number."""

    longest: int = Field(4, ge=1, description="most digits of a number in training")
    reversed: bool = Field(False, description="sums from the least significant digit on: '861' for 168")


@task("add")
class Add(Algorithmic):
    """Sums of two numbers, of which the longer has as many digits as the row is long, and the other any number of them.

    "12+7" and "7+12" are the same in a split: none is learned while the other measures.
    """

    settings = AddSettings
    alphabet = staticmethod(lambda settings: digits + "+")
    same = staticmethod(lambda source: "+".join(sorted(source.split("+"))))

    @classmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        parts = [number(length, chance), number(chance.randint(1, length), chance)]
        chance.shuffle(parts)
        total = str(sum(parts))
        return f"{parts[0]}+{parts[1]}", total[::-1] if settings.reversed else total


def number(length: int, chance: Random) -> int:
    """A number of so many digits; 0 has one."""
    return chance.randint(10 ** (length - 1) if length > 1 else 0, 10**length - 1)
