"""The distributions that a model's output says, by which a student is compared with its teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

IGNORED = -100  # target of a position that does not count


class Heard:
    """A model that is called, and the output that it gave last."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.output = model, torch.empty(0)

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.output = self.model(*given, **named)
        return self.output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class Soft(NamedTuple):
    """The distributions that a model's output says for a batch.

    logits   (terms, classes): each row is a distribution, softmax of it
    weights  (terms,): how much each counts in the mean; 0 at positions that do not count
    rows     (terms,) int64: to which row of the batch each belongs
    """

    logits: Tensor
    weights: Tensor
    rows: Tensor


def soft_of(output: Tensor, counted: Tensor) -> Soft:
    """Logits (rows, ..., classes), of which those count where `counted` (rows, ...) says so: true, or a weight."""
    logits, weights = output.flatten(0, -2), counted.flatten()
    rows = torch.arange(len(output), device=output.device).repeat_interleave(len(logits) // max(1, len(output)))
    return Soft(logits, weights.to(torch.promote_types(logits.dtype, torch.float32)), rows)


def at_targets(task: Any, output: Tensor, batch: Any) -> Soft:
    """A distribution for each target of a batch that counts."""
    return soft_of(output, batch.targets != IGNORED)


def output_of(task: Any, model: Any, batch: Any) -> Any:
    """The output of a model for a batch."""
    return model(**batch.given)


@dataclass(frozen=True)
class SoftTargets:
    """How a task's model is compared with a teacher of the same task: what the loss is made of, apart from the labels.

    held_out  task and model -> the batches of the validation set, in order
    soft      task, output and batch -> the distributions that the output says; raises InputError for one that says none
    output    task, model and batch -> the output, as the task's loss has it
    by_place  each row of a batch has as many distributions, those that do not count included
    """

    held_out: Callable[[Any, Any], Iterator[Any]]
    soft: Callable[[Any, Tensor, Any], Soft] = at_targets
    output: Callable[[Any, Any, Any], Any] = output_of
    by_place: bool = True
