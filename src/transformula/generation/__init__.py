"""From a model and tokens to more tokens: sampling, cached decoding, streaming. Knows token ids only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .decoding import generate as generate
    from .settings import SamplingSettings as SamplingSettings
    from .stream import StoppingStream as StoppingStream

__all__ = ["SamplingSettings", "StoppingStream", "generate"]


def __getattr__(name: str) -> Any:
    # Here, as in every room, the package itself loads nothing: `--help` must not pay for torch.
    from importlib import import_module

    homes = {"generate": "decoding", "SamplingSettings": "settings", "StoppingStream": "stream"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{homes[name]}", __name__), name)
