"""Gradients of a step: of the task's loss and of the losses that the model adds, over micro-batches; and what a model
adds and measures, by name: such as the loss by which experts share the load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..tasks.base import Batch
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


def named_losses(model: nn.Module) -> dict[str, Tensor]:
    """What the model's last pass in training adds to the loss, by name, each with its weight already in it:
    {"layers.1.experts.balance": tensor}. A model says it by a method of this name; others have none."""
    return dict(getattr(model, "named_losses", dict)())


def named_measures(model: nn.Module) -> dict[str, float]:
    """What the model measured in this step, by name: {"layers.1.experts.largest_load": 1.8}. A model says it by a
    method of this name; others have none."""
    return {name: float(value) for name, value in getattr(model, "named_measures", dict)().items()}


def whole_loss(loss: Tensor, named: Mapping[str, Tensor]) -> Tensor:
    """The task's loss and all named ones."""
    return sum((value.to(loss.dtype) for value in named.values()), loss)


def by_kind(named: Mapping[str, float]) -> dict[str, float]:
    """Sums over the modules: "layers.1.experts.balance" and "layers.2.experts.balance" are one "balance"."""
    sums: dict[str, float] = {}
    for name, value in named.items():
        kind = name.rpartition(".")[2]
        sums[kind] = sums.get(kind, 0.0) + value
    return sums


def worst_by_kind(measures: Mapping[str, float]) -> dict[str, float]:
    """The largest of all modules: "layers.1.experts.idle" and "layers.2.experts.idle" are one "idle"."""
    kinds = dict.fromkeys(name.rpartition(".")[2] for name in measures)
    return {kind: max(value for name, value in measures.items() if name.endswith(f".{kind}")) for kind in kinds}
