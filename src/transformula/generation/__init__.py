"""From a model and tokens to more tokens: sampling, beam search, cached decoding, streaming. Knows token ids only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .beam import Hypothesis as Hypothesis
    from .beam import search as search
    from .decoding import generate as generate
    from .settings import SamplingSettings as SamplingSettings
    from .settings import SearchSettings as SearchSettings
    from .stream import StoppingStream as StoppingStream

__all__ = ["Hypothesis", "SamplingSettings", "SearchSettings", "StoppingStream", "generate", "search"]


def __getattr__(name: str) -> Any:
    # Here, as in every room, the package itself loads nothing: `--help` must not pay for torch.
    from importlib import import_module

    homes = {
        "generate": "decoding",
        "Hypothesis": "beam",
        "SamplingSettings": "settings",
        "SearchSettings": "settings",
        "StoppingStream": "stream",
        "search": "beam",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{homes[name]}", __name__), name)
