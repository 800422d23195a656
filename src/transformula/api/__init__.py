"""The Python face, joining the rooms: nothing is decided here that a room could decide."""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOMES = {
    "Model": "model",
    "Run": "run",
    "curves": ".inspection.curves",
    "evaluate": "evaluation",
    "explain": "model",
    "nearest": "model",
    "reproduce": "recipe",
    "summary": "model",
    "train": "run",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES[name]}", __name__), name)
