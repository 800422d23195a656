"""Words of chance: `dropout` and `droppath`, random in training and the identity in evaluation."""

from __future__ import annotations

import torch
from torch import Tensor

from .cpu import dropout
from .word import Word, number, word


@word(
    "dropout",
    streams=("x",),
    numbers=("p",),
    kind="chance",
    width="x",
    options={
        "p": number(
            "probability of zeroing a number; default: the file's `dropout`, or 0",
            "dropout",
            minimum=0,
            maximum=1,
            absent=0,
        ),
    },
    saved="0 if p == 0 else x / 4",
    initial_scale="same",
    example="x = x + dropout(mlp(norm(x)), 0.1)",
    equation="y = x m / (1 - p), m = 0 with probability p, else 1",
    source="Srivastava et al. 2014",
)
class Dropout(Word):
    """Each number becomes 0 with probability p, the others are divided by 1 - p; in evaluation the identity.

    On a CPU p is taken to the nearest 1/256 in training (see `cpu.dropout`).
    """

    @staticmethod
    def function(x: Tensor, *, p: float, training: bool) -> Tensor:
        """Same shape as x."""
        return dropout(x, p) if training and p else x


@word(
    "droppath",
    like="dropout",
    options={
        "p": number(
            "probability of dropping a sample; default: the file's `droppath`, or 0",
            "droppath",
            minimum=0,
            maximum=1,
            absent=0,
        ),
    },
    saved="0",
    example="x = x + droppath(mlp(norm(x)), 0.1 * layer / depth)",
    equation="y = x m / (1 - p), one m for each sample",
    source="stochastic depth: Huang et al., 1603.09382",
)
class DropPath(Word):
    """Each sample becomes 0 with probability p, the others are divided by 1 - p; in evaluation the identity."""

    @staticmethod
    def function(x: Tensor, *, p: float, training: bool) -> Tensor:
        """Same shape as x (batch, length, width)."""
        if not training or not p:
            return x
        if p >= 1:
            return x * 0
        kept = torch.rand(x.shape[0], *([1] * (x.dim() - 1)), device=x.device) >= p
        return x * (kept.to(x.dtype) / (1 - p))
