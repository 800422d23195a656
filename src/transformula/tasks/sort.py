"""Sort: a row of symbols -> the same symbols in order, each as often as it stands there. "kqbk" -> "bkkq"."""

from __future__ import annotations

from random import Random

from .algorithmic import Algorithmic, SymbolSettings
from .base import task


@task("sort")
class Sort(Algorithmic):
    """Symbols in the order of the alphabet: small letters, capital ones, digits. A copy is right for sorted rows."""

    @classmethod
    def row(cls, settings: SymbolSettings, length: int, chance: Random) -> tuple[str, str]:
        alphabet = cls.alphabet(settings)
        source = "".join(chance.choices(alphabet, k=length))
        return source, "".join(sorted(source, key=alphabet.index))
