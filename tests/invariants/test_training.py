"""Every entry trains: twenty steps lower the loss, or the entry says why they must not."""

from __future__ import annotations

import pytest
import torch

from tests.invariants.harness import FEW, every_day, fresh, inputs, outputs, single
from transformula import gallery

STEPS = 20


@pytest.mark.parametrize("name", every_day(gallery.names(), FEW))
def test_twenty_steps(name: str) -> None:
    """Of AdamW on one batch, towards fixed targets."""
    model = fresh(name, torch.float32, randomly=False, deep=False).train()
    given = single(inputs(name, 8))
    with torch.no_grad():
        wanted = [o.shape[-1] for o in outputs(model(**given))]

    def loss() -> torch.Tensor:
        made = outputs(model(**given))
        # one class for each row, a little harder than a constant
        targets = [torch.arange(o.shape[0])[:, None].expand(o.shape[:2]) % n for o, n in zip(made, wanted, strict=True)]
        return sum(
            torch.nn.functional.cross_entropy(o.flatten(0, 1), t.flatten()) for o, t in zip(made, targets, strict=True)
        )  # type: ignore[return-value]

    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss() + sum(model.named_losses().values(), torch.zeros(()))
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(value.item())
    trains = gallery.entry(name).about.get("trains", "")
    better = sum(losses[-5:]) / 5 < 0.97 * losses[0]
    assert better or trains, f"{losses[0]:.3f} to {losses[-1]:.3f}: the entry must say why (`trains:`)"
