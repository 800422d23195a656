"""A formula made flesh: `build` makes a PyTorch module of a checked architecture. Knows no files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .builder import build as build
    from .decoding import Decoding as Decoding
    from .transformer import Transformer as Transformer

__all__ = ["Decoding", "Transformer", "build"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    homes = {"build": "builder", "Decoding": "decoding", "Transformer": "transformer"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{homes[name]}", __name__), name)
