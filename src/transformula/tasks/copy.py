"""Copy: a row of symbols -> the same row. "kqbd" -> "kqbd"."""

from __future__ import annotations

from random import Random

from .algorithmic import Algorithmic, SymbolSettings
from .base import task
from .scores.baselines import constant


@task("copy")
class Copy(Algorithmic):
    """A row as it is. That trivial answer is the right one, so the constant one alone is beside it."""

    trivial = {"constant": constant}

    @classmethod
    def row(cls, settings: SymbolSettings, length: int, chance: Random) -> tuple[str, str]:
        source = "".join(chance.choices(cls.alphabet(settings), k=length))
        return source, source
