"""What training gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from ..runs.summary import duration


@dataclass(frozen=True)
class RunResult:
    """A run that ended. Its `repr` is the few lines that a person reads, `.data` what a program reads.

    model       the model with the weights of its best evaluation
    scores      of the best evaluation, on the whole validation split
    last        of the last evaluation
    stopped     why it ended, in words
    interrupted whether it was asked to end (Ctrl-C); it can go on
    """

    folder: Path
    model: nn.Module
    scores: Mapping[str, float]
    best_step: int
    last: Mapping[str, float]
    baselines: Mapping[str, float]
    verdict: str
    sample: str
    steps: int
    units: int
    unit: str
    seconds: float
    stopped: str
    interrupted: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_status(self) -> int:
        """0, or 130 where the run was interrupted."""
        return 130 if self.interrupted else 0

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "folder": str(self.folder), "scores": dict(self.scores), "best_step": self.best_step, "last": dict(self.last),
            "baselines": dict(self.baselines), "verdict": self.verdict, "sample": self.sample, "steps": self.steps,
            "units": self.units, "unit": self.unit, "seconds": self.seconds, "stopped": self.stopped,
            "interrupted": self.interrupted, "settings": dict(self.settings),
        }  # fmt: skip

    def __repr__(self) -> str:
        rows = [
            f"{self.steps:,} steps, {self.units:,} {self.unit} in {duration(self.seconds)} ({self.stopped})",
            f"validation, best at step {self.best_step:,}: "
            + ", ".join(f"{name} {value:.4f}" for name, value in self.scores.items()),
            self.verdict,
            f"run: {self.folder}",
        ]
        return "\n".join(row for row in rows if row)
