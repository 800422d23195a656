"""G2: a model learns the few rows of one batch by heart."""

from __future__ import annotations

import math
import time

import torch

from ..gate import ArmTrial, Finding, gate

STEPS, SECONDS = 200, 10.0  # of each rate, at most
FEWEST = 2  # steps, however long they take
RATES = (1.0, 0.25)  # times the middle of the arm's grid, of which one is enough
WARM = 5  # steps in which the rate rises
BY_HEART = 0.05  # the loss comes below this share of what it was at first: of 64 characters, one in five is not sure
LEARNS = 0.9  # above this share it learns hardly anything; deep nets without skips come below it, and are slow
STILL = 0.999  # above this one nothing moves, however few steps there was time for


@gate("G2", "one batch can be overfitted", trains=True)
def overfitting(trial: ArmTrial) -> Finding:
    """Some steps on one batch, of two rows where a task counts rows, bring its loss down to a twentieth: it is known by
    heart. One that learns, and is not so far by then, is slow, and not broken."""
    best, first, steps = math.inf, math.inf, 0
    for factor in RATES:
        first, lowest, made = lowest_loss(trial, trial.rate * factor)
        best, steps = min(best, lowest), max(steps, made)
        if best <= BY_HEART * first:
            break
    values = {"first": first, "lowest": best, "steps": steps}
    text = f"loss {first:.3f} to {best:.3f} in {steps} steps on one batch"
    if best <= BY_HEART * first:
        return Finding(True, f"{text}: known by heart", values)
    if best <= (LEARNS if steps == STEPS else STILL) * first:
        text += ", for which there was time" if steps < STEPS else ""
        return Finding(None, f"{text}: it learns, and does not know the batch by heart", values, "learns slowly")
    return Finding(False, f"{text}: it learns hardly anything; is a gradient stopped, or the stream lost?", values)


def lowest_loss(trial: ArmTrial, rate: float) -> tuple[float, float, int]:
    """(loss at first, the lowest one, steps) of training on the one batch at a rate, without dropout."""
    module = trial.module().eval()
    optimizer, begin = trial.optimizer(module), time.monotonic()
    first = lowest = math.inf
    for step in range(STEPS + 1):
        module.zero_grad(set_to_none=True)
        loss = trial.loss(module)
        value = float(loss.detach())
        first = value if step == 0 else first
        if not math.isfinite(value):
            break
        lowest = min(lowest, value)
        if lowest <= BY_HEART * first or step == STEPS or (step >= FEWEST and time.monotonic() - begin > SECONDS):
            break
        torch.autograd.backward(loss)
        optimizer.step(rate * min(1.0, (step + 1) / WARM))
    return first, lowest, step
