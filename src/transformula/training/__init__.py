"""Training: the loop, optimizers, schedules, precision, progress. Asks a task for batches, losses and scores."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .report import RunResult
    from .settings import TrainingSettings
    from .start import train

__all__ = ["RunResult", "TrainingSettings", "train"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: settings need no torch."""
    places = {"RunResult": "report", "TrainingSettings": "settings", "train": "start"}
    if name not in places:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{places[name]}", __name__), name)
