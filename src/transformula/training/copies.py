"""Copies of a model that share its buffers: in bfloat16, or with parameters that hold nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


@torch.no_grad()
def copy_with(
    model: nn.Module, parameter: Callable[[Tensor], Tensor], buffer: Callable[[Tensor], Tensor] | None = None
) -> nn.Module:
    """A copy of a model whose parameters are made of the model's; so are its buffers, or they are the model's."""
    made: dict[int, Any] = {id(p): nn.Parameter(parameter(p), p.requires_grad) for p in model.parameters()}
    made |= {id(b): b if buffer is None else buffer(b) for b in model.buffers()}
    return copy.deepcopy(model, made)


def working_copy(master: nn.Module) -> nn.Module:
    """A copy whose floating-point parameters are bfloat16 and whose buffers are those of the master.

    A module that was compiled in place has a copy that is, too, with the defaults of `compile`: torch keeps no record
    of what it was called with.
    """

    def lowered(parameter: Tensor) -> Tensor:
        return parameter.to(torch.bfloat16 if parameter.is_floating_point() else parameter.dtype, copy=True)

    copied = copy_with(master, lowered, lower_if_empty)
    for mine, theirs in zip(copied.modules(), master.modules(), strict=True):
        if theirs._compiled_call_impl is not None:
            mine.compile()
    return copied


def lower_if_empty(buffer: Tensor) -> Tensor:
    """A buffer of a model in bf16: one that is empty says in which type a module without parameters computes."""
    lower = not buffer.numel() and buffer.is_floating_point()
    return buffer.to(torch.bfloat16) if lower else buffer
