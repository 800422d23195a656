"""What a model adds to the task's loss in training: its named losses, such as the balance of experts.

A model says them itself: `model.named_losses()` gives, after a pass in training, {"layers.1.experts.balance": tensor},
each with its weight already in it. Other modules have none.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


def named_losses(model: nn.Module) -> dict[str, Tensor]:
    """What the model's last pass in training adds to the loss, by name."""
    found = getattr(model, "named_losses", None)
    return dict(found()) if callable(found) else {}


def whole_loss(loss: Tensor, named: Mapping[str, Tensor]) -> Tensor:
    """The task's loss and all named ones."""
    for value in named.values():
        loss = loss + value.to(loss.dtype)
    return loss


def by_kind(named: Mapping[str, float]) -> dict[str, float]:
    """Sums over the modules: "layers.1.experts.balance" and "layers.2.experts.balance" are one "balance"."""
    sums: dict[str, float] = {}
    for name, value in named.items():
        kind = name.rpartition(".")[2]
        sums[kind] = sums.get(kind, 0.0) + value
    return sums
