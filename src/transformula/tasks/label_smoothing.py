"""Cross-entropy against smoothed targets (Szegedy et al. 2016; Vaswani et al. 2017 with e = 0.1).

A function of its own because the logits of a long batch are the largest tensor of a training step: (tokens, vocab)
numbers, which the usual composition holds up to four times.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..errors import InputError

IGNORED = -100
"""Target of a position that does not count."""

AT_ONCE = 1 << 22
"""Numbers of the logits that are looked at together: what is held besides logits and gradient is of this size."""


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.1) -> Tensor:
    """Mean over the real positions of (1 - e) nll + e mean_v(-log p_v): a scalar, float32 at least, in nats.

    logits     (..., vocab), any floating type
    targets    (...) int64; -100 where there is none
    smoothing  e, from 0 (plain cross-entropy) to below 1

    The e is spread evenly over the *whole* vocabulary, the target included, which has 1 - e + e / vocab in the end: as
    torch.nn.functional.cross_entropy and Hugging Face have it. Others do not, so that their losses differ by a little
    at one e: fairseq and tensor2tensor spread it over the vocab - 1 others, the Annotated Transformer and JoeyNMT over
    vocab - 2 (nor to padding); the last three take off the entropy of the smoothed target, a constant. No smoothed
    loss is the nats per token of a text: evaluate with e = 0.

    Without a real position the loss is 0. Kept for the backward pass are the logits alone; it makes one tensor of their
    shape, their gradient. It is computed from softmax p as p - (1 - e) [v = target] - e / vocab. No second derivative.

    Raises InputError: e out of range, shapes that do not fit.
    """
    if not 0 <= smoothing < 1:
        raise InputError(f"label smoothing of {smoothing}: it is from 0 (none) to below 1, as 0.1")
    if logits.shape[:-1] != targets.shape:
        raise InputError(
            f"logits {tuple(logits.shape)} with targets {tuple(targets.shape)}: the targets have the shape of the "
            "logits without the last axis"
        )
    loss: Tensor = _Smoothed.apply(logits.flatten(0, -2), targets.flatten(), smoothing)  # type: ignore[no-untyped-call]
    return loss


def _rows(logits: Tensor) -> int:
    return max(1, AT_ONCE // max(1, logits.shape[-1]))


class _Smoothed(torch.autograd.Function):
    """Of (tokens, vocab) logits and (tokens,) targets, some rows at a time, in float32 or better."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        ctx.save_for_backward(logits, targets)
        ctx.smoothing = smoothing
        dtype = torch.promote_types(logits.dtype, torch.float32)
        total = logits.new_zeros((), dtype=dtype)
        step = _rows(logits)
        for some, asked in zip(torch.split(logits, step), torch.split(targets, step), strict=True):
            real = asked != IGNORED
            logarithms = torch.log_softmax(some, dim=-1, dtype=dtype)
            of_target = logarithms.gather(-1, asked.where(real, 0)[:, None])[:, 0]
            each = (1 - smoothing) * of_target
            if smoothing:
                each = each + smoothing * logarithms.mean(dim=-1)
            total -= each.where(real, 0).sum()
        return total / (targets != IGNORED).sum().clamp(min=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None, None]:
        logits, targets = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        share = above / (targets != IGNORED).sum().clamp(min=1)
        step = _rows(logits)
        for some, asked, into in zip(
            torch.split(logits, step), torch.split(targets, step), torch.split(gradient, step), strict=True
        ):
            real = asked != IGNORED
            found = torch.softmax(some, dim=-1, dtype=above.dtype)
            if ctx.smoothing:
                found.sub_(ctx.smoothing / logits.shape[-1])
            less = torch.full_like(asked, ctx.smoothing - 1, dtype=found.dtype)
            found.scatter_add_(-1, asked.where(real, 0)[:, None], less[:, None])
            # not a product: what is no number at a position that does not count stays out
            into.copy_(found.mul_(share).masked_fill_(~real[:, None], 0))
        return gradient, None, None
