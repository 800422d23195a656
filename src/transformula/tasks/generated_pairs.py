"""The former place of `algorithmic`, for packages that import it from here."""

from .algorithmic import FURTHER as FURTHER
from .algorithmic import SYMBOLS as SYMBOLS
from .algorithmic import Algorithmic as GeneratedPairs
from .algorithmic import SymbolSettings as SymbolSettings

__all__ = ["FURTHER", "SYMBOLS", "GeneratedPairs", "SymbolSettings"]
