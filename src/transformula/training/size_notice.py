"""What a run that ends by the clock says of its size before the first step: a line, where the model is too large for
the tokens that it will see."""

from __future__ import annotations

import torch
from torch import nn

from ..cost.words import AMOUNTS, duration, in_units
from ..errors import setting
from ..tasks.base import Task
from .machine import peak
from .settings import TrainingSettings
from .state import flops_per_unit

SHARE_OF_PEAK = 0.5
"""A run's share of the speed of the machine's products: 0.4 to 0.65 was measured on two cores without bf16."""
FEW_TOKENS = 0.25
"""Tokens a parameter. With 0.14 (width 256, 3.5 minutes on two cores without bf16) a model of Python's documentation
came to 1.99 bits per byte; of width 192, with 0.44, to 1.88, and of width 128, with 1.7, to 1.80."""


def line_of_size(task: Task, model: nn.Module, settings: TrainingSettings, device: torch.device) -> str:
    """Says that a smaller model learns more in the minutes that a run has; "" where the model is small enough, the run
    has other limits, or its task does not read running text."""
    if not settings.minutes or settings.length != {"minutes": settings.minutes} or task.unit != "tokens":
        return ""
    seconds = settings.minutes * 60
    tokens = seconds * SHARE_OF_PEAK * peak(device, settings.precision) / flops_per_unit(model)
    each = tokens / sum(parameter.numel() for parameter in model.parameters())
    if each >= FEW_TOKENS:
        return ""
    width = getattr(getattr(model, "architecture", None), "numbers", {}).get("width")
    remedy = f" ({setting('width', str(width // 2))})" if width and width > 1 else ""
    return (
        f"{duration(seconds)} here are about {in_units(tokens, AMOUNTS)} tokens, {each:.2g} for each parameter: "
        f"a smaller model{remedy} probably learns more in that time"
    )
