"""Norms: each sets the size of every position's vector, `batchnorm` and `groupnorm` that of channels."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from .recompute import recomputing
from .rms import rms_norm
from .word import Word, empty, flag, number, split, whole, word


def _in_type(parameter: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A parameter in the type of the stream, which may be another one."""
    return parameter if parameter is None or parameter.dtype == dtype else parameter.to(dtype)


def affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


class _Norm(Word):
    """What norms share: a weight and a bias by slice of `size` channels, which all slices of the width use."""

    constants = {"weight": 1, "bias": 0}

    def __init__(self, x: int, size: int, eps: float, weight: bool, bias: bool, offset: float = 0) -> None:
        super().__init__()
        self.size, self.eps, self.sliced, self.offset = size, eps, size != x, offset
        if offset:
            self.constants = {**self.constants, "weight": 1 - offset}
        self.weight = empty(size) if weight else None
        self.bias = empty(size) if bias else None

    def scale(self) -> Tensor | None:
        """What the normed stream is multiplied by."""
        weight: Tensor | None = self.weight
        return weight + self.offset if self.offset and weight is not None else weight

    def norm(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(split(x, -1, self.size)).flatten(-2) if self.sliced else self.norm(x)


@word(
    "layernorm",
    streams=("x",),
    kind="norm",
    options={
        "eps": number("added under the root", 1e-05, minimum=0),
        "weight": flag("whether there is a scale w", True, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
        "size": whole("normalize slices of this many channels", "x", minimum=1, shapes=True),
        "offset": number("the scale is w plus this number; w starts at 1 less it", 0, shapes=True, later=True),
    },
    parameters={"weight": "size if weight else 0", "bias": "size if bias else 0"},
    checks={
        "x % size == 0": "the width {x} does not divide into slices of {size}",
        "weight or offset == 0": "offset is added to the scale, and weight=False leaves none",
    },
    saved="x + 2 * x / size",
    initial_scale="unit",
    example="x = x + mlp(layernorm(x, eps=1e-6))",
    equation="y = w (x - mean(x)) / sqrt(variance(x) + eps) + b",
    source="Ba et al., 1607.06450",
)
class LayerNorm(_Norm):
    """y = w (x - mean) / sqrt(variance + eps) + b, over the channels of each position (or of each slice of `size`).

    weight (size,), 1; bias (size,), 0. Statistics in float32 where x is bfloat16. `offset`: the scale is w + offset,
    and the weight starts at 1 - offset; so weight decay pulls the scale to offset.
    """

    def norm(self, x: Tensor) -> Tensor:
        weight, bias = _in_type(self.scale(), x.dtype), _in_type(self.bias, x.dtype)
        return F.layer_norm(x, (self.size,), weight, bias, self.eps)


@word("norm", like="layernorm", same_as="layernorm", example="x = norm(x + attention(x)); x = norm(x + mlp(x))")
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
    `offset=1` is Gemma's: the scale is 1 + w, w starts at 0, and weight decay pulls the scale to 1.
    """

    def norm(self, x: Tensor) -> Tensor:
        return affine(rms_norm(x, self.scale(), self.eps), None, self.bias)


@word(
    "scalenorm",
    streams=("x",),
    kind="norm",
    options={"eps": number("added to the mean square under the root", 1e-06, minimum=0)},
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
        if size == x.shape[-1]:
            return F.normalize(x, dim=-1, eps=eps)
        return F.normalize(split(x, -1, size), dim=-1, eps=eps).flatten(-2)


@word(
    "dyt",
    streams=("x",),
    kind="norm",
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

    def __init__(self, x: int, init: float, weight: bool, bias: bool) -> None:
        super().__init__()
        self.constants = {"alpha": init, "weight": 1, "bias": 0}
        self.alpha = empty(1)
        self.weight = empty(x) if weight else None
        self.bias = empty(x) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return affine(torch.tanh(self.alpha * x), self.weight, self.bias)


@word(
    "batchnorm",
    streams=("x",),
    kind="norm",
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
class BatchNorm(_Norm):
    """y = w (x - mean) / sqrt(variance + eps) + b, each channel by itself; same shape as x (batch, length, x).

    In training mean and variance are those of all real positions of the batch (variance divided by their number), so
    that every position sees all others, those of other rows too. Evaluating they are the running ones:

        running = (1 - momentum) running + momentum (that of the batch, variance divided by their number - 1)

    weight (x,), 1; bias (x,), 0; buffers running_mean (x,), 0, and running_var (x,), 1, which are saved with the
    parameters. As PyTorch's BatchNorm1d where nothing is padding.

    Raises InputError in training on a single position, which has no variance.
    """

    constants = {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}

    def __init__(self, x: int, eps: float, weight: bool, bias: bool, momentum: float) -> None:
        super().__init__(x, x, eps, weight, bias)
        self.running_mean: Tensor
        self.running_var: Tensor
        self.momentum = momentum
        self.register_buffer("running_mean", torch.empty(x))
        self.register_buffer("running_var", torch.empty(x))

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if self.training and real is not None:
            return self._masked(x, real)
        rows = x.reshape(-1, x.shape[-1])
        if self.training and rows.shape[0] == 1:
            raise InputError("batchnorm in training needs more than one position: a single one has no variance")
        # statistics in their own type, which is float32 where x is bfloat16
        mean, variance = self.running_mean, self.running_var
        if recomputing():  # they have taken these statistics in
            mean, variance = mean.clone(), variance.clone()
        weight, bias = _in_type(self.weight, mean.dtype), _in_type(self.bias, mean.dtype)
        y = F.batch_norm(rows, mean, variance, weight, bias, self.training, self.momentum, self.eps)
        return y.view(x.shape)

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
            rate = 0.0 if recomputing() else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), rate)
        y = centered * torch.rsqrt(variance + self.eps)
        return affine(y, self.weight, self.bias).to(x.dtype)


@word(
    "groupnorm",
    streams=("x",),
    numbers=("groups",),
    kind="norm",
    reach="all",
    padding=True,
    options={
        "groups": whole("number of groups of channels", minimum=1),
        "eps": number("added under the root", 1e-05, minimum=0),
        "weight": flag("whether there is a scale w", True, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
    },
    parameters={"weight": "x if weight else 0", "bias": "x if bias else 0"},
    checks={"x % groups == 0": "the width {x} does not divide into {groups} groups"},
    saved="x",
    initial_scale="unknown",
    example="causal: false\nlayer: x = x + mlp(groupnorm(x, 8))",
    equation="y = w (x - mean) / sqrt(variance + eps) + b, over the channels of a group and all positions of a sample",
    source="Wu and He, 1803.08494",
)
class GroupNorm(_Norm):
    """y = w (x - mean) / sqrt(variance + eps) + b, over the channels of a group and all real positions; as x.

    x (batch, length, x); each group has x / groups neighboring channels. So every position sees all others of its row:
    a causal stack refuses it, and has `layernorm(x, size=x / groups)`, whose statistics are those of one position. With
    as many groups as channels it is the instance norm. As PyTorch's GroupNorm where nothing is padding.

    weight (x,), 1; bias (x,), 0. Statistics in float32 at least.
    """

    def __init__(self, x: int, groups: int, eps: float, weight: bool, bias: bool) -> None:
        super().__init__(x, x, eps, weight, bias)
        self.groups = groups

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        slices = split(x.to(torch.promote_types(x.dtype, torch.float32)), self.groups, -1)
        if real is None:
            variance, mean = torch.var_mean(slices, (1, 3), correction=0, keepdim=True)
        else:
            padding = ~real[..., None, None]
            count = real.sum(1)[:, None, None, None] * slices.shape[-1]
            mean = slices.masked_fill(padding, 0).sum((1, 3), keepdim=True) / count
            variance = (slices - mean).masked_fill(padding, 0).square().sum((1, 3), keepdim=True) / count
        y = ((slices - mean) * torch.rsqrt(variance + self.eps)).flatten(2).to(x.dtype)
        return affine(y, _in_type(self.weight, x.dtype), _in_type(self.bias, x.dtype))
