"""A formula made flesh: `build` makes a PyTorch module of a checked architecture. Knows no files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..registry import lazy

if TYPE_CHECKING:
    from .builder import build as build
    from .decoding import Decoding as Decoding
    from .transformer import Transformer as Transformer

__all__ = ["Decoding", "Transformer", "build"]
__getattr__ = lazy(__name__, {"build": "builder", "Decoding": "decoding", "Transformer": "transformer"})
