"""Looking at models: what a formula says, joined from what the rooms below know of it."""

from __future__ import annotations

from typing import Any

HOMES = {
    "Curves": "curves",
    "Explanation": "explanation",
    "Nearest": "neighbours",
    "curves": "curves",
    "explained": "explanation",
    "nearest": "neighbours",
}
__all__ = ["Curves", "Explanation", "Nearest", "curves", "explained", "nearest"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
