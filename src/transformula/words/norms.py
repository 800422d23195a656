"""Norms: each sets the size of every position's vector."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .rms import rms_norm
from .word import Word, empty, flag, number, split, whole, word


def _typed(parameter: Tensor | None, x: Tensor) -> Tensor | None:
    """A parameter in the type of x: the stream may be of another one."""
    return parameter if parameter is None or parameter.dtype == x.dtype else parameter.to(x.dtype)


class _Norm(Word):
    """What norms share: a weight and a bias by slice of `size` channels, which all slices of the width use."""

    constants = {"weight": 1, "bias": 0}

    def __init__(self, x: int, eps: float, weight: bool, bias: bool, size: int) -> None:
        super().__init__()
        self.size, self.eps, self.sliced = size, eps, size != x
        self.weight = empty(size) if weight else None
        self.bias = empty(size) if bias else None

    def norm(self, x: Tensor) -> Tensor:
        """Of x (..., size)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(split(x, -1, self.size)).flatten(-2) if self.sliced else self.norm(x)


@word(
    "layernorm",
    streams=("x",),
    kind="norm",
    width="x",
    options={
        "eps": number("added under the root", 1e-05, minimum=0),
        "weight": flag("whether there is a scale w", True, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
        "size": whole("normalize slices of this many channels", "x", minimum=1, shapes=True),
    },
    parameters={"weight": "size if weight else 0", "bias": "size if bias else 0"},
    checks={"x % size == 0": "the width {x} does not divide into slices of {size}"},
    saved="x + 2 * x / size",
    initial_scale="unit",
    example="x = x + mlp(layernorm(x, eps=1e-6))",
    equation="y = w (x - mean(x)) / sqrt(variance(x) + eps) + b",
    source="Ba et al., 1607.06450",
)
class LayerNorm(_Norm):
    """y = w (x - mean) / sqrt(variance + eps) + b, over the channels of each position (or of each slice of `size`).

    weight (size,), 1; bias (size,), 0. Statistics in float32 where x is bfloat16.
    """

    def __init__(self, x: int, size: int, eps: float = 1e-5, weight: bool = True, bias: bool = True) -> None:
        super().__init__(x, eps, weight, bias, size)

    def norm(self, x: Tensor) -> Tensor:
        weight: Tensor | None = self.weight
        bias: Tensor | None = self.bias
        if weight is not None and weight.dtype != x.dtype or bias is not None and bias.dtype != x.dtype:
            weight, bias = _typed(weight, x), _typed(bias, x)
        return F.layer_norm(x, (self.size,), weight, bias, self.eps)


@word(
    "norm",
    like="layernorm",
    same_as="layernorm",
    example="x = norm(x + attention(x)); x = norm(x + mlp(x))",
    equation="y = w (x - mean(x)) / sqrt(variance(x) + eps) + b",
)
class Norm(LayerNorm):
    """What `norm` means in a file that does not define it: `layernorm`."""


@word(
    "rmsnorm",
    like="layernorm",
    options={
        "eps": number("added under the root", 1e-06, minimum=0),
        "bias": flag("whether there is a bias b", shapes=True),
    },
    saved="x + 1 * x / size",
    example="x = x + mlp(rmsnorm(x))",
    equation="y = w x / sqrt(mean(x**2) + eps) + b",
    source="Zhang and Sennrich, 1910.07467",
)
class RMSNorm(_Norm):
    """y = w x / sqrt(mean(x^2) + eps) + b, over the channels of each position (or of each slice of `size`).

    weight (size,), 1; bias (size,), 0, off by default (the paper has none). Statistics in float32 where x is bfloat16.
    """

    def __init__(self, x: int, size: int, eps: float = 1e-6, weight: bool = True, bias: bool = False) -> None:
        super().__init__(x, eps, weight, bias, size)

    def norm(self, x: Tensor) -> Tensor:
        y = rms_norm(x, self.weight, self.eps)
        return y if self.bias is None else y + self.bias


@word(
    "scalenorm",
    streams=("x",),
    kind="norm",
    width="x",
    options={
        "eps": number("added to the mean square under the root", 1e-06, minimum=0),
    },
    parameters={"weight": "1"},
    saved="x + 1",
    initial_scale="unit",
    example="x = x + mlp(scalenorm(x))",
    equation="y = g x / |x|",
    source="Nguyen and Salazar, 1910.05895",
)
class ScaleNorm(Word):
    """y = g x / |x|, with one learned number g; same shape as x.

    weight (1,): g / sqrt(x), which starts at 1, so that g starts at sqrt(width) as in the paper and the result has the
    size 1; the root holds eps, as in `rmsnorm`, which the paper has as a maximum.
    """

    constants = {"weight": 1}

    def __init__(self, x: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = empty(1)

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, None, self.eps) * self.weight


@word(
    "l2norm",
    streams=("x",),
    kind="norm",
    width="x",
    options={
        "size": whole("normalize slices of this many channels", "x", minimum=1),
        "eps": number("lower bound of the length that x is divided by", 1e-12, minimum=0),
    },
    checks={"x % size == 0": "the width {x} does not divide into slices of {size}"},
    saved="x",
    initial_scale="1 / sqrt(size)",
    example="x = l2norm(x + mlp(x))",
    equation="y = x / |x|",
)
class L2Norm(Word):
    """y = x / max(|x|, eps): each position's vector (or each slice of `size` channels) of length 1; no parameters."""

    @staticmethod
    def function(x: Tensor, *, size: int, eps: float = 1e-12) -> Tensor:
        """The vectors of length 1."""
        if size == x.shape[-1]:
            return F.normalize(x, dim=-1, eps=eps)
        return F.normalize(split(x, -1, size), dim=-1, eps=eps).flatten(-2)


@word(
    "dyt",
    streams=("x",),
    kind="norm",
    width="x",
    options={
        "init": number("initial value of a", 0.5),
        "weight": flag("whether there is a scale w", True, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
    },
    parameters={"alpha": "1", "weight": "x if weight else 0", "bias": "x if bias else 0"},
    saved="2 * x",
    initial_scale="unknown",
    example="x = x + mlp(dyt(x))",
    equation="y = w tanh(a x) + b",
    source="Zhu et al., 2503.10622",
)
class DynamicTanh(Word):
    """y = w tanh(a x) + b: a squashing in the place of a norm, without statistics; same shape as x.

    alpha a (1,), init; weight (x,), 1; bias (x,), 0.
    """

    def __init__(self, x: int, init: float = 0.5, weight: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.constants = {"alpha": init, "weight": 1, "bias": 0}
        self.alpha = empty(1)
        self.weight = empty(x) if weight else None
        self.bias = empty(x) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.alpha * x)
        if self.weight is not None:
            y = y * self.weight
        return y if self.bias is None else y + self.bias
