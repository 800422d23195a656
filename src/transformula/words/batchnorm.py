"""Batch normalization over the real positions of a batch: `batchnorm`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from .word import GeneratorFor, Word, empty, fill, flag, number, word


@word(
    "batchnorm",
    streams=("x",),
    kind="norm",
    width="x",
    reach="all",
    padding=True,
    options={
        "eps": number("added under the root", 1e-05, minimum=0),
        "weight": flag("whether there is a scale w", True, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
        "momentum": number("weight of the current batch in the running statistics", 0.1, minimum=0, maximum=1),
    },
    parameters={"weight": "x if weight else 0", "bias": "x if bias else 0"},
    saved="x",
    initial_scale="unknown",
    example="causal: false\nlayer: x = x + mlp(batchnorm(x))",
    equation="y = w (x - mean) / sqrt(variance + eps) + b, channel by channel over batch and positions",
    source="Ioffe and Szegedy, 1502.03167",
)
class BatchNorm(Word):
    """y = w (x - mean) / sqrt(variance + eps) + b, each channel by itself; same shape as x (batch, length, x).

    In training mean and variance are those of all real positions of the batch (variance divided by their number), so
    that every position sees all others, those of other rows too. Evaluating they are the running ones:

        running = (1 - momentum) running + momentum (that of the batch, variance divided by their number - 1)

    weight (x,), 1; bias (x,), 0; buffers running_mean (x,), 0, and running_var (x,), 1, which are saved with the
    parameters. As PyTorch's BatchNorm1d where nothing is padding.

    Raises InputError in training on a single position, which has no variance.
    """

    def __init__(
        self, x: int, eps: float = 1e-5, weight: bool = True, bias: bool = True, momentum: float = 0.1
    ) -> None:
        super().__init__()
        self.running_mean: Tensor
        self.running_var: Tensor
        self.eps, self.momentum = eps, momentum
        self.weight = empty(x) if weight else None
        self.bias = empty(x) if bias else None
        self.register_buffer("running_mean", torch.empty(x))
        self.register_buffer("running_var", torch.empty(x))

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill(self.weight, 1)
        fill(self.bias, 0)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if self.training and real is not None:
            return self._masked(x, real)
        rows = x.reshape(-1, x.shape[-1])
        if self.training and rows.shape[0] == 1:
            raise InputError("batchnorm in training needs more than one position: a single one has no variance")
        weight, bias = self._typed(self.weight), self._typed(self.bias)
        # statistics in their own type, which is float32 where x is bfloat16
        y = F.batch_norm(
            rows, self.running_mean, self.running_var, weight, bias, self.training, self.momentum, self.eps
        )
        return y.view(x.shape)

    def _typed(self, parameter: Tensor | None) -> Tensor | None:
        return None if parameter is None else parameter.to(self.running_mean.dtype)

    def _masked(self, x: Tensor, real: Tensor) -> Tensor:
        """Training, with statistics of the real positions only."""
        precise = x.to(torch.promote_types(x.dtype, torch.float32))
        here = real[..., None].expand(*x.shape[:-1], 1)
        count = here.sum().clamp(min=1)
        mean = precise.masked_fill(~here, 0).sum((0, 1)) / count
        centered = precise - mean
        variance = centered.square().masked_fill(~here, 0).sum((0, 1)) / count
        with torch.no_grad():
            unbiased = variance * (count / (count - 1).clamp(min=1))
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
        y = centered * torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            y = y * self.weight
        if self.bias is not None:
            y = y + self.bias
        return y.to(x.dtype)
