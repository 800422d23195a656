"""What the trainer asks of a task. It knows nothing of what stands behind: text, pairs, pictures.

A new task is one file here with a class under `@task("its-name")`:

    @task("copying")
    class Copying(Task): ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ..data.settings import DataSettings
from ..language.graph import Architecture
from ..registry import Registry

tasks: Registry[type[Task]] = Registry("task", "transformula.tasks")
"""Tasks by name."""

Progress = Callable[[int, int], None]
"""Called with (units done, units in all)."""


def task(name: str) -> Callable[[type[Task]], type[Task]]:
    """Decorator that announces a task under `name`."""

    def announce(made: type[Task]) -> type[Task]:
        made.name = name
        return tasks.register(name)(made)

    return announce


class Scores(dict[str, float]):
    """What an evaluation found, by name. "loss" is what early stopping compares: lower is better."""

    @property
    def loss(self) -> float:
        """The score by which models are compared."""
        return self["loss"]


@dataclass(frozen=True)
class Batch:
    """Inputs of a model and what it should say to them.

    inputs, targets  (batch, length) int64 for tasks on tokens
    """

    inputs: Tensor
    targets: Tensor

    def to(self, device: torch.device | str) -> Batch:
        """The same on a device."""
        return Batch(self.inputs.to(device, non_blocking=True), self.targets.to(device, non_blocking=True))


class Task(ABC):
    """What a model is trained to do.

    name     by which it is announced
    unit     what is counted: "tokens"
    numbers  what the model takes from the task, e.g. {"vocab": 2048, "context": 128}
    score    which of the scores is the main one, that of `baselines` and `verdict`
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "examples"
    numbers: dict[str, int]

    @property
    def score(self) -> str:
        """The name of the main score among `Scores`."""
        return "loss"

    @classmethod
    @abstractmethod
    def make(
        cls, settings: DataSettings, numbers: Mapping[str, Any], *, batch: int, accumulate: int = 1, seed: int = 1
    ) -> Self:
        """The task from settings. `numbers` are those that the model's file states (vocab, context, ...).

        Raises DataError and ConfigError.
        """

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        """Raise InputError for a model that this task cannot train: its inputs, or what it sees. None unless said."""
        return

    @abstractmethod
    def batch(self, step: int, micro: int = 0) -> Batch:
        """Micro-batch `micro` of step `step`, both from 0: a pure function of these and the seed."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean loss of a batch in nats: a scalar, float32."""

    @abstractmethod
    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the whole validation split. Leaves the model in the mode in which it was."""

    @abstractmethod
    def units(self, batch: Batch) -> int:
        """How many units a batch holds."""

    def baselines(self) -> dict[str, float]:
        """Scores of trivial models on the same data, of the kind `score`; may take seconds, is cached."""
        return {}

    @abstractmethod
    def verdict(self, scores: Scores) -> str:
        """The main score in words, beside the nearest baselines."""

    @abstractmethod
    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """Something the model makes, to be looked at."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what a model's folder needs to be used without this task."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain data for a run's manifest: hash of the data, split, sizes."""
