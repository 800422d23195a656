"""The loss by which a student learns the distributions of its teacher, some rows at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..errors import InputError
from .losses import AT_ONCE, is_one


def soft_loss(
    student: Tensor, teacher: Tensor, weights: Tensor, temperature: float = 1.0, ids: Tensor | None = None
) -> Tensor:
    """T^2 times the weighted mean of KL(p || q): a scalar, float32 at least, in nats.

        p = softmax(teacher / T), q = softmax(student / T)

    student, teacher  logits (terms, classes); of classes that one of them lacks, such as rows of a table that stand for
                      no token, the teacher says nothing: p is 0 there
    weights           (terms,) of the mean; a term of 0 does not count, whatever its logits are
    ids               (terms, k) int64: the classes whose logits `teacher` has, where these are k; p is 0 of others

    The gradient, T (q - p), is made in the forward pass, and is the one tensor of the logits' shape that is kept.
    Without a term that counts the loss is 0. Raises InputError for logits of different terms.
    """
    if student.shape[:-1] != teacher.shape[:-1]:
        raise InputError(
            f"the teacher's logits are {tuple(teacher.shape)} where the student's are {tuple(student.shape)}: they say"
            " something of other positions"
        )
    loss: Tensor = _SoftLoss.apply(student, teacher, weights, temperature, ids)  # type: ignore[no-untyped-call]
    return loss


class _SoftLoss(torch.autograd.Function):
    """The loss by the logits of a student and a teacher, weights and a temperature, some rows at a time."""

    @staticmethod
    def forward(
        ctx: Any, student: Tensor, teacher: Tensor, weights: Tensor, temperature: float, ids: Tensor | None
    ) -> Tensor:
        dtype = torch.promote_types(torch.promote_types(student.dtype, teacher.dtype), torch.float32)
        counted, known = weights > 0, min(student.shape[-1], teacher.shape[-1])
        share = weights.to(dtype) / weights.to(dtype).sum().clamp(min=torch.finfo(dtype).tiny)
        gradient = torch.empty_like(student) if ctx.needs_input_grad[0] else None
        each = torch.empty(len(student), dtype=dtype, device=student.device)
        step = max(1, AT_ONCE.get(student.device.type, AT_ONCE[""]) // max(1, student.shape[-1]))
        for first in range(0, len(student), step):
            rows = slice(first, first + step)
            log_q = torch.log_softmax(student[rows].to(dtype) / temperature, dim=-1)
            log_p = torch.log_softmax(teacher[rows, :known].to(dtype) / temperature, dim=-1)
            p, own = log_p.exp(), log_q[:, :known] if ids is None else log_q.gather(-1, ids[rows])
            each[rows] = torch.where(p > 0, p * (log_p - own), 0).sum(dim=-1)
            if gradient is not None:
                q = log_q.exp_()
                if ids is None:
                    q[:, :known] -= p
                else:
                    q.scatter_add_(-1, ids[rows], -p)
                # not a product: what is no number at a position that does not count stays out
                q.mul_(temperature * share[rows, None]).masked_fill_(~counted[rows, None], 0)
                gradient[rows] = q
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return temperature**2 * (each.where(counted, 0) * share).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient if is_one(above) else gradient * above.to(gradient.dtype), None, None, None, None
