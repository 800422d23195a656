"""Cross-entropy of a model whose logits are made some positions at a time, with their gradients in the forward pass.

    loss = sum over chunks c of n_c / n times the mean loss of chunk c,   n_c of n real positions

Each chunk's logits and their gradient are let go before the next chunk's are made; what is kept for the backward pass
are the gradients of what enters the output and of its parameters, as in Liger (Hsu et al. 2024, 2410.10989) and cut
cross-entropy (Wijmans et al. 2024, 2411.09009). The loss is that of the whole but for rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..model.head_in_chunks import Head, head_of
from .base import IGNORED, Batch
from .losses import is_one, smoothed_cross_entropy


def token_loss(model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy of a batch's targets under a model: whole, or in chunks where it is told to make them."""
    made = head_of(model, batch.given) if torch.is_grad_enabled() else None
    if made is None:
        return smoothed_cross_entropy(model(**batch.given), batch.targets, smoothing)
    head, chunks = made
    loss: Tensor = _InChunks.apply(head, batch.targets, chunks, smoothing, *head.streams, *head.parameters)  # type: ignore[no-untyped-call]
    return loss


class _InChunks(torch.autograd.Function):
    """The loss by a head, targets, a number of chunks, label smoothing, then the head's streams and its parameters."""

    @staticmethod
    def forward(ctx: Any, head: Head, targets: Tensor, chunks: int, smoothing: float, *tensors: Tensor) -> Tensor:
        loss, gradients = loss_in_chunks(head, targets, chunks, smoothing, tensors[: len(head.streams)])
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        if not is_one(above):
            gradients = [gradient * above.to(gradient.dtype) for gradient in gradients]
        return None, None, None, None, *gradients


def loss_in_chunks(
    head: Head, targets: Tensor, chunks: int, smoothing: float, streams: tuple[Tensor, ...]
) -> tuple[Tensor, list[Tensor]]:
    """The loss, and the gradients of streams and parameters. Sums over chunks are in float32 at least."""
    flat = targets.flatten()
    real = (flat != IGNORED).to(torch.promote_types(streams[0].dtype, torch.float32))
    rows = [stream.detach().flatten(0, 1) for stream in streams]
    of_rows = [torch.empty_like(row) for row in rows]
    of_parameters = [torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32)) for p in head.parameters]
    size = -(-len(flat) // chunks)
    loss: Tensor | None = None
    for first in range(0, len(flat), size):
        here = slice(first, first + size)
        share = real[here].sum() / real.sum().clamp(min=1)
        with torch.enable_grad():
            leaves = [row[here][None].requires_grad_() for row in rows]
            logits = head.run(*leaves)
            part = smoothed_cross_entropy(logits, flat[here][None], smoothing) * share
            del logits
        made = torch.autograd.grad(part, [*leaves, *head.parameters])
        loss = part.detach() if loss is None else loss + part.detach()
        for gradient, own in zip(made, of_rows, strict=False):
            own[here] = gradient[0]
        for gradient, own in zip(made[len(rows) :], of_parameters, strict=True):
            own += gradient
        del made, part
    assert loss is not None
    gradients = [own.view(stream.shape) for own, stream in zip(of_rows, streams, strict=True)]
    return loss, gradients + [own.to(p.dtype) for own, p in zip(of_parameters, head.parameters, strict=True)]
