"""What a model adds to the loss, and what it measures, by name: such as the loss by which experts share the load."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


def named_losses(model: nn.Module) -> dict[str, Tensor]:
    """What the model's last pass in training adds to the loss, by name, each with its weight already in it:
    {"layers.1.experts.balance": tensor}. A model says it by a method of this name; others have none."""
    losses = getattr(model, "named_losses", None)
    return dict(losses()) if callable(losses) else {}


def named_measures(model: nn.Module) -> dict[str, float]:
    """What the model measured in this step, by name: {"layers.1.experts.largest_load": 1.8}. A model says it by a
    method of this name; others have none."""
    measures = getattr(model, "named_measures", None)
    return {name: float(value) for name, value in measures().items()} if callable(measures) else {}


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
