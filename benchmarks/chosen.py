"""What `transformula train` would choose here for a model and a batch: the precision and the number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from transformula.training.choices import choose_precision, choose_threads, step_like
from transformula.training.machine import describe
from transformula.training.state import flops_per_unit

CPU = torch.device("cpu")


def chosen_by_train(model: nn.Module, task: Any, batch: Any) -> tuple[str, int]:
    """Precision and threads, as the first lines of a run say them."""
    flops = int(task.units(batch)) * flops_per_unit(model)
    precision, _ = choose_precision("auto", model, task, CPU, batch, flops)
    threads, _ = choose_threads(None, CPU, lambda: step_like(model, task, CPU, batch, flops, precision))
    return precision, threads


def with_threads(count: int, step: Callable[..., Any]) -> Callable[..., Any]:
    """A step with a number of threads of its own, since steps of several programs take turns."""

    def run(*given: Any) -> Any:
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            return step(*given)
        finally:
            torch.set_num_threads(before)

    return run


def has_matrix_units() -> bool:
    """Whether this CPU multiplies matrices in bf16 with units of its own (AMX): what bf16 gains depends on it."""
    return "amx_bf16" in describe(torch.device("cpu"))["capability"]
