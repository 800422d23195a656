"""What is known of a trained model that is scored, and what an evaluation says, whatever the task."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, InputError, setting
from ..language.graph import Architecture
from ..settings import Settings

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Trained:
    """A trained model that is to be scored.

    name      as a person named it
    folder    that of the model, with its tokenizer
    modules   the model, and the other models of its ensemble
    numbers   what its text says: vocab, context, ...
    recorded  the configuration of its run; {} where only the model is known
    lost      the training data of its run, where that is missing
    """

    name: str
    folder: Path
    architecture: Architecture
    modules: Sequence[nn.Module]
    numbers: Mapping[str, int]
    recorded: Mapping[str, Any]
    lost: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """What is to be known of a score where the training data is lost."""
        note = (
            f"the training data ({', '.join(self.lost)}) is missing: there are no baselines, and no search for"
            " evaluation examples that are also in the training set"
        )
        return [note] if self.lost else []

    @property
    def alone(self) -> nn.Module:
        """The one model. Raises InputError where there are several."""
        if len(self.modules) > 1:
            raise InputError(f"{self.name}: models that write no target for a source are scored one by one")
        return self.modules[0]

    def settings_of(self, kind: type[Settings]) -> dict[str, Any]:
        """What its run recorded of the settings of one kind."""
        return {key: value for key, value in self.recorded.items() if key in kind.model_fields}

    def unknown(self, key: str) -> InputError:
        """The error for a model of which no data is known."""
        return InputError(f"{self.name}: a model's folder knows no data; say which: {key}")

    def held_back(self) -> DataError:
        """The error where what is scored was a part of training data that is lost."""
        return DataError(
            f"{self.name}: what is scored by default is a part of its training data, {', '.join(self.lost)}, which is"
            f" not there; put it back, or say what is scored: {setting('data', 'FILE')}"
        )


class Report(ABC):
    """What an evaluation found: its `repr` is for people, `.data` for programs, `.written` what the model wrote."""

    written: Sequence[str] | None = None

    @property
    @abstractmethod
    def data(self) -> dict[str, Any]:
        """As plain data."""


@dataclass(frozen=True, repr=False)
class Evaluation(Report):
    """Scores of a whole validation split, beside the baselines."""

    scores: Mapping[str, float]
    baselines: Mapping[str, float]
    verdict: str
    validation: str
    notes: Sequence[str] = ()

    @property
    def data(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        rows = [("validation", self.validation)] if self.validation else []
        for name, value in self.scores.items():
            rows.append((name, f"{value:,.0f}" if value == int(value) and value >= 1000 else f"{value:.4f}"))
        rows += [(f"baseline: {name}", f"{value:.4f}") for name, value in self.baselines.items()]
        rows += [("note", note) for note in self.notes]
        width = max(20, *(len(name) + 2 for name, _ in rows))
        return "\n".join([*(f"{name:<{width}}{value}" for name, value in rows), self.verdict])


def standing(score: float, baselines: Mapping[str, float]) -> str:
    """Where a score (lower is better) stands among baselines, in words: the two nearest are named."""
    if not math.isfinite(score):
        return "not a finite number"
    ranked = [(value, f"the {name} ({value:.2f})") for value, name in sorted((v, n) for n, v in baselines.items())]
    worse = [text for value, text in ranked if value > score]
    better = [text for value, text in reversed(ranked) if value <= score]
    if not baselines:
        return "no baseline"
    if worse and better:
        return f"below {worse[0]}, above {better[0]}"
    return f"{'below' if worse else 'above'} {' and '.join((worse or better)[:2])}"


def above(score: float, baselines: Mapping[str, float]) -> str:
    """Where a score (higher is better) stands among baselines, in words."""
    ranked = sorted(baselines.items(), key=lambda baseline: -baseline[1])
    beaten = [f"{name} ({value:.1f})" for name, value in ranked if value < score]
    others = [f"{name} ({value:.1f})" for name, value in ranked if value >= score]
    parts = [f"above {' and '.join(beaten[:2])}"] if beaten else []
    parts += [f"not above {' and '.join(others)}"] if others else []
    return "; ".join(parts) or "no baseline"
