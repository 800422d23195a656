"""G2: a model learns the few rows of one batch by heart."""

from __future__ import annotations

import math
import time

import torch

from ..gate import ArmTrial, Finding, gate

STEPS, SECONDS = 60, 10.0  # of each rate, at most
RATES = (1.0, 0.25)  # times the middle of the arm's grid, of which one is enough
WARM = 5  # steps in which the rate rises
WANTED = 0.9  # the loss comes below this share of what it was at first: deep nets without skips are slow, not broken


@gate("G2", "one batch can be overfitted")
def overfitting(trial: ArmTrial) -> Finding:
    """Some steps on one batch, of two rows where a task counts rows, bring its loss down by a tenth or more."""
    best, first = math.inf, math.inf
    for factor in RATES:
        first, lowest = lowest_loss(trial, trial.rate * factor)
        best = min(best, lowest)
        if best <= WANTED * first:
            break
    values = {"first": first, "lowest": best}
    text = f"loss {first:.3f} to {best:.3f} in at most {STEPS} steps on one batch"
    if best <= WANTED * first:
        return Finding(True, text, values)
    return Finding(False, f"{text}: it learns hardly anything; is a gradient stopped, or the stream lost?", values)


def lowest_loss(trial: ArmTrial, rate: float) -> tuple[float, float]:
    """(loss at first, the lowest one) of training on the one batch at a rate, without dropout."""
    module = trial.module().eval()
    optimizer, begin = trial.optimizer(module), time.monotonic()
    first = lowest = math.inf
    for step in range(STEPS):
        module.zero_grad(set_to_none=True)
        loss = trial.loss(module)
        value = float(loss.detach())
        first = value if step == 0 else first
        if not math.isfinite(value) or time.monotonic() - begin > SECONDS:
            break
        lowest = min(lowest, value)
        if lowest <= WANTED * first:
            break
        torch.autograd.backward(loss)
        optimizer.step(rate * min(1.0, (step + 1) / WARM))
    return first, lowest
