"""Cross-entropy: what models are trained by, and what an evaluation sums."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..errors import InputError
from ..generation.steps import device_of
from ..model.transformer import evaluating
from ..words.cpu import wide
from .base import IGNORED, Batch, Scores
from .scores.measured import Measured, Numbers, of_sums, ratio

AT_ONCE = {"cpu": 1 << 19, "": 1 << 24}  # numbers of logits looked at together; on a CPU as many as its caches hold


def target_nats(
    model: Callable[..., Tensor], batches: Iterable[Batch], device: torch.device
) -> tuple[float, int, Numbers]:
    """-log P of all real targets of batches, summed, without smoothing; how many there are; and both of each row,
    (rows, 2)."""
    nats, tokens, rows = 0.0, 0, RowTable(2)
    for batch in batches:
        on_device = batch.to(device)
        each, real = nats_of(model, on_device), on_device.targets != IGNORED
        nats += float(wide(each).sum())
        tokens += int(real.sum())
        rows.add(torch.stack([wide(part).sum(-1) for part in (each, real)], -1))
    return nats, tokens, rows.numbers()


class RowTable:
    """Numbers of each row that an evaluation has seen, (rows, columns), in one piece of memory.

    A small piece for each batch would stand in what the batch's large tensors leave free, so that those of the next
    batch need new memory: for 20 million tokens a process took 10 GB.
    """

    def __init__(self, columns: int) -> None:
        self.columns, self._numbers = columns, array("d")

    def add(self, rows: Tensor) -> None:
        """Add rows (rows, columns) of float64."""
        self._numbers.frombytes(rows.cpu().numpy().tobytes())

    def numbers(self) -> Numbers:
        return np.array(self._numbers).reshape(-1, self.columns)


def nats_of(model: Callable[..., Tensor], batch: Batch) -> Tensor:
    """-log P of each target of a batch, without smoothing, 0 where none counts: (rows, length) float32."""
    with torch.no_grad():
        logits = model(**batch.given).flatten(0, 1).float()
        each = F.cross_entropy(logits, batch.targets.flatten(), reduction="none", ignore_index=IGNORED)
    return each.view(batch.targets.shape)


def per_token(rows: Numbers, name: str = "loss", factor: float = 1.0) -> Measured:
    """A mean over tokens, times `factor`, as a score of rows: rows (rows, 2) hold the sum and the tokens of each."""
    each = factor * ratio(rows[:, 0], rows[:, 1])
    return of_sums(name, "", rows, lambda sums: factor * ratio(sums[:, 0], sums[:, 1]), each, digits=4, higher=False)


def target_scores(model: nn.Module, batches: Iterable[Batch]) -> Scores:
    """How well the targets of batches are predicted, without smoothing:

    loss        nats per target token, each end included: the mean of -log P
    perplexity  exp(loss)
    tokens      how many there are
    """
    nats, tokens, rows = target_nats(evaluating(model), batches, device_of(model))
    scores = Scores(loss=nats / tokens, perplexity=perplexity(nats / tokens), tokens=tokens)
    return scores.measure([per_token(rows)]).derive("perplexity", "loss", perplexity)


def perplexity(loss: float) -> float:
    """exp(loss), where that is a number."""
    return math.exp(loss) if loss < 700 else math.inf


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.1) -> Tensor:
    """Mean over the real positions of (1 - e) nll + e mean_v(-log p_v): a scalar, float32 at least, in nats.

    Of smoothed targets (Szegedy et al. 2016; Vaswani et al. 2017 with e = 0.1). A function of its own because the
    logits, (tokens, vocab), are the largest tensor of a training step, and the usual composition holds them four times.

    logits     (..., vocab), any floating type
    targets    (...) int64; -100 where there is none
    smoothing  e, from 0 (plain cross-entropy) to below 1

    The e is spread evenly over the *whole* vocabulary, the target included, which has 1 - e + e / vocab in the end: as
    torch.nn.functional.cross_entropy and Hugging Face have it. Others do not, so that their losses differ by a little
    at one e: fairseq and tensor2tensor spread it over the vocab - 1 others, the Annotated Transformer and JoeyNMT over
    vocab - 2 (nor to padding); the last three take off the entropy of the smoothed target, a constant. No smoothed
    loss is the nats per token of a text: evaluate with e = 0.

    Without a real position the loss is 0. Softmax p is made once, in the forward pass, and with it the gradient,
    p - (1 - e) [v = target] - e / vocab: the one tensor of the logits' shape that is made and kept. No second
    derivative.

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


class _Smoothed(torch.autograd.Function):
    """The loss by (tokens, vocab) logits and (tokens,) targets, some rows at a time, in float32 or better."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float = 0.1) -> Tensor:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        real = targets != IGNORED
        labels = targets.where(real, 0)[:, None]
        share = 1 / real.sum().clamp(min=1).to(dtype)
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        each = torch.empty(len(logits), dtype=dtype, device=logits.device)
        step = max(1, AT_ONCE.get(logits.device.type, AT_ONCE[""]) // max(1, logits.shape[-1]))
        for first in range(0, len(logits), step):
            rows = slice(first, first + step)
            some = logits[rows].to(dtype)
            p = torch.softmax(some, dim=-1)
            # log sum exp, from the largest: its p is never rounded to nought
            normalizer = some.amax(dim=-1) - p.amax(dim=-1).log()
            each[rows] = normalizer - (1 - smoothing) * some.gather(-1, labels[rows])[:, 0]
            if smoothing:
                each[rows] -= smoothing * some.mean(dim=-1)
            if gradient is not None:
                if smoothing:
                    p.sub_(smoothing / logits.shape[-1])
                p.scatter_add_(-1, labels[rows], torch.full_like(labels[rows], smoothing - 1, dtype=dtype))
                # not a product: what is no number at a position that does not count stays out
                gradient[rows] = p.mul_(share).masked_fill_(~real[rows, None], 0)
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return each.where(real, 0).sum() * share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        # one more pass over numbers that no cache holds, where there is something to multiply by
        return gradient if is_one(above) else gradient * above.to(gradient.dtype), None, None


def is_one(above: Tensor) -> bool:
    """Whether a gradient is 1, where that is known without waiting for a device."""
    if isinstance(above, FakeTensor) and above.constant is None:
        return False
    return above.device.type == "cpu" and float(above) == 1
