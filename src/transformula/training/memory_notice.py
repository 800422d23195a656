"""What a run says of its memory before the first step: a line, where it takes much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..cost.machine import resident
from ..cost.memory import FLOAT, of_parameters
from ..errors import InputError
from ..runs import random_state
from ..tasks.base import Batch, Task
from .optimizers import keeps_of
from .settings import TrainingSettings

MIN_BYTES_SAID = 1 << 30  # a run that takes less says nothing of its memory, and needs no second to find it out


def bound_of_step(model: nn.Module, part: Batch, settings: TrainingSettings) -> int:
    """Bytes that a step over part of a batch may hold: an upper bound of most, found without following it."""
    numbers: Mapping[str, Any] = getattr(getattr(model, "architecture", None), "numbers", {})
    patch = int(numbers.get("patch", 0))
    read = max(t.numel() for t in part.inputs.values()) // patch**2 if patch else 0  # pictures, in squares
    wide = 2 * numbers.get("vocab", 0) + 16 * numbers.get("depth", 0) * numbers.get("width", 0)
    count, most = sum(p.numel() for p in model.parameters()), max(keeps_of(settings.optimizer).values())
    return of_parameters({"": count}, {"": most}).total + FLOAT * max(read, part.targets.numel()) * int(wide)


def say_memory(
    say: Callable[[str], None], task: Task, model: nn.Module, settings: TrainingSettings, part: Batch, ranks: int = 1
) -> None:
    """Say in one line what memory a step will take, for a part of a batch; nothing where that is little.

    ranks  how many share the weights, gradients, and the optimizer's state
    """
    if getattr(model, "carry", False) or bound_of_step(model, part, settings) + task.held_bytes < MIN_BYTES_SAID:
        return  # what a task carries from step to step would be left without numbers
    from .memory import memory_of_step

    device, parts = torch.device(settings.device).type, settings.micro_batches * settings.accumulate
    try:
        with random_state.preserve():
            estimate = memory_of_step(model, task.loss, part, settings, device, parts)
            besides = bytes_besides(model) if device == "cpu" else task.held_bytes
            say(replace(estimate, besides=besides).of_rank(ranks).sentence)
    except InputError as error:
        say(str(error))


def bytes_besides(model: nn.Module) -> int:
    """Bytes that this process has in memory besides a model that is on the CPU: libraries, data; 0 if not known."""
    storages = [tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers())]
    return max(0, (resident() or 0) - sum({one._cdata: one.nbytes() for one in storages}.values()))
