"""Training: the loop, optimizers, schedules, precision, progress. Asks a task for batches, losses and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..registry import lazy

if TYPE_CHECKING:
    from .report import RunResult
    from .settings import TrainingSettings
    from .start import train

__all__ = ["RunResult", "TrainingSettings", "train"]
__getattr__ = lazy(__name__, {"RunResult": "report", "TrainingSettings": "settings", "train": "start"})
