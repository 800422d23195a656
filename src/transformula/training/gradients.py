"""Gradients of a step: of the task's loss and of the losses that the model adds, over micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..tasks.base import Batch
from .named import named_losses, whole_loss
from .parallel.data_parallel import Part
from .state import RunState
from .telemetry import Telemetry


def make_gradients(state: RunState, telemetry: Telemetry, parts: Sequence[Part]) -> tuple[float, dict[str, float]]:
    """Gradients of the mean loss over micro-batches, into the masters; returns (the task's loss, the model's by name).

    Each micro-batch has a seed of its own, so that it can be made again alone.
    """
    losses: list[Tensor] = []
    sums: dict[str, float] = {}
    state.weights.clear()
    for micro, batch, share in parts:
        model = state.weights.model
        if micro == 0 or (state.sharded is not None and micro == parts[0][0]):  # then all ranks are asked
            model = telemetry.model_for(state.position.step, state.task, batch)
        state.seed_generators(micro)
        state.batch = f"micro-batch {micro + 1} of {state.ranks.data_size * len(parts)}", batch
        loss, named = losses_of(state, model, batch, share)
        torch.autograd.backward(whole_loss(loss, named))
        state.weights.collect()
        losses.append(loss.detach())
        for name, value in named.items():
            sums[name] = sums.get(name, 0.0) + float(value.detach())
    state.batch = None
    return float(torch.stack(losses).sum()), sums


def whole_loss_of(state: RunState, model: nn.Module, batch: Batch, share: float) -> Tensor:
    """A micro-batch's share of all that is minimized."""
    return whole_loss(*losses_of(state, model, batch, share))


def losses_of(state: RunState, model: nn.Module, batch: Batch, share: float) -> tuple[Tensor, dict[str, Tensor]]:
    """A micro-batch's share of the task's loss, of the model or its watched twin, and of each that the model adds."""
    loss: Tensor = state.task.loss(model, batch) * share
    return loss, {name: value * share for name, value in named_losses(model).items()}
