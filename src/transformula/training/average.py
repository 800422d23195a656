"""A running average of the weights: what is evaluated, and kept as the model, in its place.

    m <- m + (1 - d) (w - m),   d = min(decay, (1 + step) / (10 + step))

after each step, from m = w at the start (Polyak and Juditsky 1992; with decay, as in Vaswani's tensor2tensor). The d is
small at first, so that the initial weights are soon forgotten. Only parameters are averaged; buffers, such as a batch
norm's statistics, are averages already and are taken as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from ..interop.weights import fill


class RunningAverage:
    """The average of a model's trainable parameters, in their precision.

    decay  from 0 to below 1; with 0 the average is the weights
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.average = {name: p.detach().clone() for name, p in self.weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after step `step`, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.values()), [p.detach() for p in self.weights.values()], 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within it the model's parameters are the average."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, parameter in self.weights.items():
            parameter.data, self.average[name] = self.average[name], parameter.data

    def load(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Go on from what a checkpoint holds. Raises CheckpointError where it is of another model."""
        fill(self.average, tensors, path)
