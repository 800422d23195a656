"""From a model and tokens to more tokens: sampling, beam search, cached decoding, streaming. Knows token ids only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..registry import lazy

if TYPE_CHECKING:
    from .beam import search as search
    from .decoding import generate as generate
    from .sentences import Hypothesis as Hypothesis
    from .settings import SamplingSettings as SamplingSettings
    from .settings import SearchSettings as SearchSettings
    from .stream import StoppingStream as StoppingStream

__all__ = ["Hypothesis", "SamplingSettings", "SearchSettings", "StoppingStream", "generate", "search"]

__getattr__ = lazy(
    __name__,
    {"Hypothesis": "sentences", "StoppingStream": "stream", "generate": "decoding", "search": "beam"}
    | dict.fromkeys(("SamplingSettings", "SearchSettings"), "settings"),
)
