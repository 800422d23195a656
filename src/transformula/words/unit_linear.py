"""W x / sqrt(mean(x^2) + eps): what a weight that depends on a stream reads of it, without a normed copy of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .cpu import tracing
from .rms import rms_norm


def unit_linear(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (..., width), weight (size, width) to (..., size), in the dtype of x.

    A norm without a weight of its own, for W can hold it. Eager training divides the few products, not the many
    channels: nothing as large as x is made or kept (8,192 positions of 4 x 384, one thread: 2.7 ms with its backward
    pass against 18 for F.rms_norm and F.linear). Elsewhere it is those two. Once differentiable.
    """
    wanted = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    if not wanted or tracing() or torch.is_autocast_enabled(x.device.type):
        return F.linear(rms_norm(x, None, eps), weight)
    result: Tensor = _UnitLinear.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


class _UnitLinear(torch.autograd.Function):
    """With p = r W x, r = 1 / sqrt(mean(x^2) + eps): dW = sum(r g x^T), dx = r W^T g - x r^2 (g . p) / width."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        precise = torch.promote_types(x.dtype, torch.float32)
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=precise)
        root = size.square_().div_(x.shape[-1]).add_(eps).rsqrt_().to(x.dtype)
        result = F.linear(x, weight).mul_(root)
        ctx.save_for_backward(x, weight, root, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight, root, result = ctx.saved_tensors
        divided = grad * root
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            along = (grad * result).sum(-1, keepdim=True).mul_(root.square()).div_(-x.shape[-1])
            of_x = torch.matmul(divided, weight).addcmul_(x, along)
        if ctx.needs_input_grad[1]:
            of_weight = divided.reshape(-1, weight.shape[0]).t() @ x.reshape(-1, x.shape[-1])
        return of_x, of_weight, None
