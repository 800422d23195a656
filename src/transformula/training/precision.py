"""Precision: float32, or bf16 with float32 masters.

In bf16 a working copy of the model runs forward and backward wholly in bfloat16. Its gradients are moved to float32
masters, which the optimizer changes and a checkpoint holds; the masters are copied back into the working copy. (The
same division as in mixed-precision FSDP. Autocast keeps float32 weights and converts them in every step, and leaves
much between the products in float32.) Buffers stay as they are and are shared by both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..tasks.base import Batch, Task
from . import machine
from .machine import BF16, DTYPES, FLOAT32
from .optimizer import MATRIX, parameters_of

WORTH = 1.2
"""bf16 is taken where it is at least so many times faster."""
LONGEST = 0.5
"""Seconds that a float32 step may take for a whole step to be measured; above, its matrix products are."""


class Weights:
    """The masters (`master`, float32) and the model that runs (`model`): one and the same in float32."""

    def __init__(self, master: nn.Module, precision: str) -> None:
        self.master = master
        self.model = master if precision == FLOAT32 else working_copy(master)
        self._pairs = [(m, w) for m, w in zip(master.parameters(), self.model.parameters(), strict=True)]

    @torch.no_grad()
    def collect(self) -> None:
        """Add the gradients of the working copy to those of the masters, and clear them."""
        if self.model is self.master:
            return
        sums: list[Tensor] = []
        added: list[Tensor] = []
        for m, w in self._pairs:
            if w.grad is None:
                continue
            if m.grad is None:
                m.grad = w.grad.to(m.dtype)
            else:
                sums.append(m.grad)
                added.append(w.grad.to(m.dtype))
            w.grad = None
        if sums:
            torch._foreach_add_(sums, added)

    @torch.no_grad()
    def publish(self) -> None:
        """Copy the masters into the working copy."""
        if self.model is not self.master and self._pairs:
            masters, working = zip(*self._pairs, strict=True)
            torch._foreach_copy_(list(working), list(masters))

    def clear(self) -> None:
        """Drop all gradients."""
        for m, w in self._pairs:
            m.grad = w.grad = None


def working_copy(master: nn.Module) -> nn.Module:
    """A copy whose floating-point parameters are bfloat16 and whose buffers are those of the master.

    An empty buffer says what a module that has no parameters should make: here bfloat16.
    """
    copied = copy.deepcopy(master)
    for parameter in copied.parameters():
        parameter.grad = None
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(torch.bfloat16)
    for mine, theirs in zip(copied.modules(), master.modules(), strict=True):
        for name, buffer in theirs._buffers.items():
            if buffer is not None and not buffer.numel() and buffer.is_floating_point():
                buffer = buffer.to(torch.bfloat16)
            mine._buffers[name] = buffer
    return copied


def choose(
    asked: str, model: nn.Module, task: Task, device: torch.device, batch: Batch, flops: float
) -> tuple[str, str]:
    """The precision for `asked`, and one line that says why. "auto" measures once for a machine and a size of model.

    `flops` are the floating-point operations of one forward and backward pass over `batch`.
    """
    if asked != "auto":
        return asked, f"precision: {asked}, as asked"
    if not can_bf16(device):
        return FLOAT32, "precision: float32 (this device has no bf16)"
    shapes = matrices_of(model)
    units = max(1, task.units(batch))
    gain = float(
        machine.measured(
            device,
            f"bf16 over float32: shapes {_class_of(shapes)}, {_power(units)} {task.unit}",
            lambda: _gain(model, task, device, batch, flops, shapes),
        )
    )
    if gain >= WORTH:
        return BF16, f"precision: bf16 with float32 masters ({gain:.1f} times as fast as float32 here)"
    return FLOAT32, f"precision: float32 (bf16 is {gain:.1f} times as fast here; it is taken from {WORTH} on)"


def can_bf16(device: torch.device) -> bool:
    """Whether bfloat16 can be used at all."""
    return device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_bf16_supported())


def _gain(
    model: nn.Module, task: Task, device: torch.device, batch: Batch, flops: float, shapes: list[tuple[int, ...]]
) -> float:
    """How many times faster bf16 is: a whole step where it is short, else the products of the largest matrix."""
    works = [step_like(model, task, device, batch, flops, precision) for precision in (FLOAT32, BF16)]
    float32, bf16 = machine.seconds_of(*works, device=device)
    # What is not a matrix product (about a fifth of a float32 step) gains little.
    return float32 / bf16 if _is_short(flops, device, shapes) else 1 / (0.2 + 0.8 * bf16 / float32)


def _is_short(flops: float, device: torch.device, shapes: list[tuple[int, ...]]) -> bool:
    return flops / machine.peak(device, FLOAT32) < LONGEST or not shapes


def step_like(
    model: nn.Module, task: Task, device: torch.device, batch: Batch, flops: float, precision: str
) -> Callable[[], Any]:
    """Work to be timed in place of a step: forward and backward of a copy where that is short, else the products of the
    largest matrix."""
    shapes = matrices_of(model)
    if _is_short(flops, device, shapes):
        copied = copy.deepcopy(model) if precision == FLOAT32 else working_copy(copy.deepcopy(model))
        return partial(_step, copied, task, batch)  # a copy, since buffers change in a forward pass
    rows, columns = max(shapes, key=lambda shape: shape[-1] * shape[-2])[-2:]
    x = torch.ones(min(max(1, task.units(batch)), 2048), columns, device=device, dtype=DTYPES[precision])
    w = torch.ones(rows, columns, device=device, dtype=DTYPES[precision])
    return partial(_there_and_back, x, w)


def matrices_of(model: nn.Module) -> list[tuple[int, ...]]:
    """The shapes of a model's matrices."""
    return sorted({tuple(p.tensor.shape) for p in parameters_of(model) if p.role == MATRIX})


def _there_and_back(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w.mT) @ w


def _step(model: nn.Module, task: Task, batch: Batch) -> None:
    torch.autograd.backward(task.loss(model.train(), batch))
    for parameter in model.parameters():
        parameter.grad = None


def _power(number: int) -> str:
    """The nearest power of two, so that sizes that are alike share a measurement."""
    return str(1 << max(0, round(torch.tensor(float(number)).log2().item())))


def _class_of(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join("x".join(_power(n) for n in shape) for shape in shapes[:6])
