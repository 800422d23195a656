"""Windows of a text that are altered by chance, and that a model learns to restore: what tasks share that do so.

Row `row` of micro-batch `micro` of step `step` is altered by numpy.random.default_rng((seed, step, micro, row)), window
`number` of the validation text by default_rng(number). So a run that goes on sees what it would have seen, and every
evaluation asks the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from ..data.settings import TextSettings
from ..errors import DataError
from ..generation.steps import device_of
from .base import Batch, Progress
from .language_modeling import TextTask

SAMPLED_WINDOWS = 3  # windows of the validation text that are restored to be looked at


class AlteredText(TextTask):
    """A task on windows of a text that are altered. A task says:

    alter     a window (tokens,) int64, and a source of chance -> the window as it is asked about
    joined    altered windows -> their batch
    chosen    its settings
    window    tokens of a window
    shortest  tokens of a window that can be altered, at least

    altered   the validation text, altered: window after window, the same at each evaluation
    """

    alter: Callable[[np.ndarray, Generator], Any]
    joined: Callable[..., Batch]
    chosen: Any
    window: int
    shortest = 1

    def batch(self, step: int, micro: int = 0) -> Batch:
        starts = self.windows.starts(step, micro)
        parts = (self.windows.ids[start : start + self.window].astype(np.int64) for start in starts)
        return self.joined([self.alter(p, default_rng((self.seed, step, micro, row))) for row, p in enumerate(parts)])

    @cached_property
    def altered(self) -> list[Any]:
        ids = np.asarray(self.data.validation.ids)
        parts = (ids[start : start + self.window].astype(np.int64) for start in range(0, len(ids), self.window))
        rows = [self.alter(p, default_rng(number)) for number, p in enumerate(parts) if len(p) >= self.shortest]
        if not rows:
            raise DataError("the validation text is too short: a single token cannot be damaged; take more text")
        return rows

    @property
    def validation_rows(self) -> int:
        return len(self.altered)

    def keep_rows(self, rows: np.ndarray) -> None:
        self.__dict__["altered"] = [self.altered[row] for row in rows]

    def describe(self) -> dict[str, Any]:
        own = self.chosen.model_dump(mode="json", exclude=set(TextSettings.model_fields))
        return {"task": self.name, **self.data.describe(), **dict(sorted(own.items())), **self.numbers}


def altered_batches(task: AlteredText, model: Any, progress: Progress | None = None) -> Iterator[Batch]:
    """The altered windows of the validation text, some at a time, where the model is."""
    rows, most, device = task.altered, task.evaluated_at_once, device_of(model)
    for first in range(0, len(rows), most):
        yield task.joined(rows[first : first + most]).to(device)
        if progress is not None:
            progress(min(first + most, len(rows)), len(rows))


def windows_in_words(task: AlteredText, seed: int, in_words: Callable[[Any], Mapping[str, str]]) -> str:
    """A few altered windows of the validation text, to be looked at; `in_words` gives texts of one by name."""
    places = default_rng(seed).permutation(len(task.altered))[:SAMPLED_WINDOWS]
    shown = [in_words(task.altered[place]) for place in places]
    return "\n\n".join("\n".join(f"{name:<11}{text}" for name, text in texts.items()) for texts in shown).strip()
