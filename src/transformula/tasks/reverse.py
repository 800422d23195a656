"""Reverse: a row of symbols -> the same row from its end. "kqbd" -> "dbqk"."""

from __future__ import annotations

from random import Random

from .algorithmic import Algorithmic, SymbolSettings
from .base import task


@task("reverse")
class Reverse(Algorithmic):
    """A row from its end. A copy is right for palindromes, all rows of one symbol among them."""

    @classmethod
    def row(cls, settings: SymbolSettings, length: int, chance: Random) -> tuple[str, str]:
        source = "".join(chance.choices(cls.alphabet(settings), k=length))
        return source, source[::-1]
