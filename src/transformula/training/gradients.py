"""Gradients of a step: of the task's loss and of the losses that the model adds, over micro-batches; and what a model
adds and measures, by name: such as the loss by which experts share the load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..tasks.base import Batch
from .parallel.data_parallel import Part
from .state import RunState
from .telemetry import Telemetry


@dataclass(frozen=True)
class StepGradients:
    """What is known of a step whose gradients are there.

    loss      the task's; named: those that the model adds
    norm      of the gradient, before it is clipped
    measures  of the model, by name
    """

    loss: float
    named: dict[str, float]
    norm: float
    measures: dict[str, float]


def make_gradients(state: RunState, telemetry: Telemetry, parts: Sequence[Part]) -> tuple[Tensor, dict[str, Tensor]]:
    """Gradients of the mean loss over micro-batches, into the masters; returns (the task's loss, the model's by name).

    Each micro-batch has a seed of its own, so that it can be made again alone. No number is read, so that a device is
    not waited for.
    """
    losses: list[Tensor] = []
    sums: dict[str, Tensor] = {}
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
            sums[name] = sums[name] + value.detach() if name in sums else value.detach()
    state.batch = None
    return torch.stack(losses).sum(), sums


def read_numbers(*groups: Mapping[str, Tensor | float]) -> list[dict[str, float]]:
    """Tensors of one number each as numbers, by name: a device is waited for once for all."""
    tensors = [value.detach() for group in groups for value in group.values() if isinstance(value, Tensor)]
    numbers = iter(torch.stack([one.to(tensors[0].device) for one in tensors]).tolist() if tensors else ())
    return [
        {name: next(numbers) if isinstance(value, Tensor) else float(value) for name, value in group.items()}
        for group in groups
    ]


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


def named_measures(model: nn.Module) -> dict[str, Tensor | float]:
    """What the model measured in this step, by name: {"layers.1.experts.largest_load": tensor}. A model says it by a
    method of this name; others have none."""
    return dict(getattr(model, "named_measures", dict)())


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
