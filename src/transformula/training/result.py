"""What training gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import nn

from ..runs.summary import duration

FINE = frozenset(("loss", "bits_per_byte", "perplexity"))
"""Scores of which the fourth decimal says something; others are of 100."""


def main_scores(scores: Mapping[str, float], score: str) -> str:
    """The loss and the main score in words: 'loss 1.4321, bits per byte 1.7200', 'loss 2.1000, bleu 31.4'."""
    names = [name for name in dict.fromkeys(("loss", score)) if name in scores]
    return ", ".join(f"{name.replace('_', ' ')} {scores[name]:.{4 if name in FINE else 1}f}" for name in names)


@dataclass(frozen=True)
class RunResult:
    """A run that ended. Its `repr` is the few lines that a person reads, `.data` what a program reads.

    model       the model with the weights of its best evaluation
    scores      of the best evaluation, on the whole validation set
    last        of the last evaluation
    stopped     why it ended, in words
    interrupted whether it was asked to end (Ctrl-C); it can go on
    score       the name of the main score, that of the baselines and the verdict
    scored_on   what of the validation set `scores` are of, where a run was interrupted after a sample; "" is all
    usage       the command that uses the model; "" where there is none
    resume      the command by which the run goes on
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
    score: str = "loss"
    scored_on: str = ""
    usage: str = ""
    resume: str = ""

    @property
    def exit_status(self) -> int:
        """0, or 130 where the run was interrupted."""
        return 130 if self.interrupted else 0

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "model"}
        return {k: dict(v) if isinstance(v, Mapping) else str(v) if k == "folder" else v for k, v in plain.items()}

    def __repr__(self) -> str:
        on = f" ({self.scored_on})" if self.scored_on else ""
        rows = [
            f"{self.steps:,} steps, {self.units:,} {self.unit} in {duration(self.seconds)} ({self.stopped})",
            f"validation{on}, best at step {self.best_step:,}: {main_scores(self.scores, self.score)}"
            if self.scores
            else "",
            self.verdict,
            f"run: {self.folder}",
        ]
        return "\n".join(row for row in rows if row)
