"""G1: at its initial weights a model guesses: its loss is near that of equal probabilities."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..gate import ArmTrial, Finding, gate

MAX_SHARE, MAX_NATS = 0.05, 0.2  # the latter for a few classes, of which a batch of some rows says no more
MIXING = {"pointer"}  # words of outputs that are no sum of parts, which zeros would silence


@gate("G1", "loss at initialization")
def initial_loss(trial: ArmTrial) -> Finding:
    """The loss of the first batch is within 5 %, or 0.2 nats, of what the same model has whose outputs are all 0:
    ln(vocabulary), of classes ln(classes)."""
    words = {value.called.name for value in trial.architecture.output.calls()}
    if MIXING & words:
        return Finding(None, "its output mixes probabilities, so that no weights make it guess")
    module = trial.module().eval()
    with torch.no_grad():
        loss = float(trial.whole_loss(module))
        expected = guessing(trial, module)
    if expected is None:
        return Finding(None, f"{loss:.3f}: this task has no loss of guessing to hold it against", {"loss": loss})
    share = loss / expected - 1
    values = {"loss": loss, "expected": expected}
    side = "above" if share > 0 else "below"
    text = f"{loss:.3f} nats, {abs(100 * share):.1f} % {side} that of guessing, {expected:.3f}"
    if math.isfinite(share) and abs(loss - expected) <= max(MAX_SHARE * expected, MAX_NATS):
        return Finding(True, text, values)
    remedy = "initial weights of the output, or of the last norm, are too large or too small"
    return Finding(False, f"{text}: {remedy}", values)


def guessing(trial: ArmTrial, module: Any) -> float | None:
    """The loss of outputs that are all 0; None where that says nothing."""
    called = []

    def silenced(_: Any, __: Any, outputs: Any) -> Any:
        called.append(True)
        if isinstance(outputs, dict):
            return {name: torch.zeros_like(tensor) for name, tensor in outputs.items()}
        return torch.zeros_like(outputs)

    hook = module.register_forward_hook(silenced)
    try:
        loss = float(trial.whole_loss(module))
    finally:
        hook.remove()
    if not called:  # a model that carries on from segment to segment is not called as a whole
        return math.log(trial.architecture.numbers["vocab"])
    return loss if math.isfinite(loss) and loss > 0 else None
