"""Logits that are no numbers: what is wrong, and where it comes from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import NotFinite


def check_logits(model: Any, logits: Tensor, written: int) -> None:
    """Raise NotFinite unless the most likely token of each row has a finite logit; others may be ruled out, by -inf.

    logits (batch, vocab), after `written` tokens
    """
    if not bool(torch.isfinite(logits.amax(-1)).all()):
        raise not_finite([model], written)


def not_finite(models: list[Any], written: int) -> NotFinite:
    """The error of such logits; names the first parameter that is not finite."""
    for model in models:
        for name, parameter in model.named_parameters() if isinstance(model, nn.Module) else ():
            if not bool(torch.isfinite(parameter).all()):
                return NotFinite(
                    f"the model's logits are NaN or infinite, because its weights are: {name} holds numbers that are"
                    " not finite; load a checkpoint from before that",
                    step=written,
                    place=name,
                )
    return NotFinite(
        f"the model's logits are NaN or infinite after {written} tokens, though its weights are finite: a value inside"
        " it grows past its dtype; run it in float32, or train with a smaller learning rate",
        step=written,
    )
