"""Functions of a number, without weights, on streams and coefficients of any width; `softmax` is over the channels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .word import Word, word


@word(
    "relu",
    streams=("x",),
    kind="function",
    width="x",
    saved="y",
    constant="max(c, 0)",
    nonzero="positive",
    example="x = x + linear.down(relu(linear.up(norm(x), 4 * width)) ** 2, width)",
    equation="y = max(x, 0)",
)
class Relu(Word):
    """y = max(x, 0)."""

    function = staticmethod(F.relu)


@word(
    "gelu",
    like="relu",
    saved="x",
    constant="c * (1 + erf(c / sqrt(2))) / 2",
    example="x = x + linear.down(gelu(linear.up(norm(x), 4 * width)), width)",
    equation="y = x Phi(x), Phi the normal distribution's",
)
class Gelu(Word):
    """y = x Phi(x), Phi the normal distribution's."""

    function = staticmethod(F.gelu)


@word(
    "silu",
    like="relu",
    saved="x",
    constant="c / (1 + exp(-c))",
    example="h = norm(x); x = x + linear.down(silu(linear.gate(h, 512)) * linear.up(h, 512), width)",
    equation="y = x sigmoid(x)",
)
class Silu(Word):
    """y = x sigmoid(x)."""

    function = staticmethod(F.silu)


@word(
    "tanh",
    like="relu",
    constant="tanh(c)",
    example="x = x + tanh(linear(norm(x), width))",
    equation="y = tanh(x)",
)
class Tanh(Word):
    """y = tanh(x)."""

    function = staticmethod(torch.tanh)


@word(
    "sigmoid",
    like="relu",
    constant="1 / (1 + exp(-c))",
    nonzero="everywhere",
    example="h = norm(x); x = x + linear.value(h, width) * sigmoid(linear.gate(h, width))",
    equation="y = 1 / (1 + exp(-x))",
)
class Sigmoid(Word):
    """y = 1 / (1 + exp(-x))."""

    function = staticmethod(torch.sigmoid)


@word(
    "softplus",
    like="relu",
    saved="x",
    constant="log(1 + exp(c))",
    nonzero="everywhere",
    example="x = x + softplus(linear(norm(x), width))",
    equation="y = log(1 + exp(x))",
)
class Softplus(Word):
    """y = log(1 + exp(x))."""

    function = staticmethod(F.softplus)


@word(
    "softmax",
    like="relu",
    constant="1 / x",
    nonzero="",
    example="x = x + linear.out(softmax(linear.keys(norm(x), 64)), width)",
    equation="y = exp(x_c) / sum over channels c' of exp(x_c')",
)
class Softmax(Word):
    """y = exp(x_c) / sum over channels c' of exp(x_c')."""

    @staticmethod
    def function(x: Tensor) -> Tensor:
        """Applied over the last dimension."""
        return torch.softmax(x, -1)


@word(
    "exp",
    like="relu",
    constant="exp(c)",
    nonzero="everywhere",
    example="x = x * exp(vector(0)) + mlp(norm(x))",
    equation="y = exp(x)",
)
class Exp(Word):
    """y = exp(x)."""

    function = staticmethod(torch.exp)


@word(
    "log",
    like="relu",
    saved="x",
    constant="log(c)",
    nonzero="",
    partial=True,
    example="x = x + log(1 + abs(mlp(norm(x))))",
    equation="y = log(x), the natural one",
)
class Logarithm(Word):
    """y = log(x), the natural one."""

    function = staticmethod(torch.log)


@word(
    "sqrt",
    like="relu",
    constant="sqrt(c)",
    nonzero="",
    partial=True,
    example="x = x + sqrt(abs(mlp(norm(x))) + 1e-6)",
    equation="y = the square root of x",
)
class Sqrt(Word):
    """y = the square root of x."""

    function = staticmethod(torch.sqrt)


@word(
    "abs",
    like="relu",
    saved="x",
    constant="abs(c)",
    nonzero="everywhere",
    example="x = x + abs(mlp(norm(x)))",
    equation="y = |x|",
)
class Abs(Word):
    """y = |x|."""

    function = staticmethod(torch.abs)
