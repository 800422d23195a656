"""Functions of a number, without weights, on streams and coefficients of any width, `min` and `max` of two, `softmax`
over the channels; words of chance: `dropout` and `droppath`, random in training and the identity in evaluation."""

import torch
from torch import Tensor
from torch.nn import functional as F

from . import cpu
from .mlp import ACTIVATIONS
from .word import Word, number, split, whole, word


@word(
    "relu", streams=("x",), kind="function", saved="y", constant="max(c, 0)", nonzero="positive",
    example="x = x + linear.down(relu(linear.up(norm(x), 4 * width)) ** 2, width)",
    equation="y = max(x, 0)",
)
class Relu(Word):
    function = staticmethod(F.relu)


@word(
    "gelu", like="relu", saved="x", constant="c * (1 + erf(c / sqrt(2))) / 2",
    example="x = x + linear.down(gelu(linear.up(norm(x), 4 * width)), width)",
    equation="y = x Phi(x), Phi the normal distribution's",
)
class Gelu(Word):
    function = staticmethod(F.gelu)


@word(
    "gelu_tanh", like="gelu", constant="c * (1 + tanh(sqrt(2 / pi) * (c + 0.044715 * c ** 3))) / 2",
    example="x = x + linear.down(gelu_tanh(linear.up(norm(x), 4 * width)), width)",
    equation="y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2, GPT-2's approximation of gelu",
)
class GeluTanh(Word):
    function = staticmethod(ACTIVATIONS["gelu_tanh"])


@word(
    "quick_gelu", like="gelu", constant="c / (1 + exp(-1.702 * c))",
    example="x = x + linear.down(quick_gelu(linear.up(norm(x), 4 * width)), width)",
    equation="y = x sigmoid(1.702 x), CLIP's approximation of gelu",
)
class QuickGelu(Word):
    function = staticmethod(ACTIVATIONS["quick_gelu"])


@word(
    "elu", like="gelu", saved="y", constant="c if c > 0 else exp(c) - 1",
    example="x = x + linear.down(elu(linear.up(norm(x), 4 * width)), width)",
    equation="y = x above 0, exp(x) - 1 below",
    source="Clevert et al., 1511.07289",
)
class Elu(Word):
    function = staticmethod(F.elu)


@word(
    "silu", like="gelu", constant="c / (1 + exp(-c))",
    example="h = norm(x); x = x + linear.down(silu(linear.gate(h, 512)) * linear.up(h, 512), width)",
    equation="y = x sigmoid(x)",
)
class Silu(Word):
    function = staticmethod(F.silu)


@word("tanh", like="relu", constant="tanh(c)", example="x = x + tanh(linear(norm(x), width))", equation="y = tanh(x)")
class Tanh(Word):
    function = staticmethod(torch.tanh)


@word(
    "sigmoid", like="relu", constant="1 / (1 + exp(-c))", nonzero="everywhere",
    example="h = norm(x); x = x + linear.value(h, width) * sigmoid(linear.gate(h, width))",
    equation="y = 1 / (1 + exp(-x))",
)
class Sigmoid(Word):
    function = staticmethod(torch.sigmoid)


@word(
    "softplus", like="sigmoid", saved="x", constant="log(1 + exp(c))",
    example="x = x + softplus(linear(norm(x), width))",
    equation="y = log(1 + exp(x))",
)
class Softplus(Word):
    function = staticmethod(F.softplus)


@word(
    "softmax", like="relu", constant="1 / size", nonzero="", across=True,
    options={"size": whole("a softmax for each slice of this many channels", "x", minimum=1, later=True)},
    checks={"x % size == 0": "the width {x} does not divide into slices of {size}"},
    example="x = x + linear.out(softmax(linear.keys(norm(x), 64)), width)",
    equation="y = exp(x_c) / sum over channels c' of exp(x_c')",
)
class Softmax(Word):
    """y_c = exp(x_c) / the sum of exp(x_c') over the channels c', or over those of the same slice of `size`."""

    @staticmethod
    def function(x: Tensor, *, size: int) -> Tensor:
        return torch.softmax(split(x, -1, size), -1).flatten(-2)


@word("exp", like="sigmoid", constant="exp(c)", example="x = x * exp(vector(0)) + mlp(norm(x))", equation="y = exp(x)")
class Exp(Word):
    function = staticmethod(torch.exp)


@word(
    "log", like="gelu", constant="log(c)", nonzero="", partial=True,
    example="x = x + log(1 + abs(mlp(norm(x))))",
    equation="y = log(x), the natural one",
)
class Logarithm(Word):
    function = staticmethod(torch.log)


@word(
    "sqrt", like="log", saved="y", constant="sqrt(c)",
    example="x = x + sqrt(abs(mlp(norm(x))) + 1e-6)",
    equation="y = the square root of x",
)
class Sqrt(Word):
    function = staticmethod(torch.sqrt)


@word("abs", like="softplus", constant="abs(c)", example="x = x + abs(mlp(norm(x)))", equation="y = |x|")
class Abs(Word):
    function = staticmethod(torch.abs)


@word(
    "sin", like="gelu", constant="sin(c)", nonzero="",
    example="x = x + linear.down(sin(linear.up(norm(x), 4 * width)), width)",
    equation="y = sin(x)",
)
class Sine(Word):
    function = staticmethod(torch.sin)


@word(
    "cos", like="sin", constant="cos(c)",
    example="x = x + linear.down(cos(linear.up(norm(x), 4 * width)), width)",
    equation="y = cos(x)",
)
class Cosine(Word):
    function = staticmethod(torch.cos)


@word(
    "clamp", like="gelu", numbers=("low", "high"),
    options={"low": number("what is smaller becomes this"), "high": number("what is larger becomes this")},
    checks={"low <= high": "low is {low}, above high, {high}"},
    constant="min(max(c, low), high)", nonzero="",
    example="h = norm(x); x = x + linear.down(silu(linear.gate(h, 512)) * clamp(linear.up(h, 512), -7, 7), width)",
    equation="y = low where x < low, high where x > high, else x",
)
class Clamp(Word):
    """y = low where x < low, high where x > high, else x. One bound alone is `min(x, high)` or `max(x, low)`."""

    @staticmethod
    def function(x: Tensor, *, low: float, high: float) -> Tensor:
        return x.clamp(low, high)


@word(
    "min", streams=("a", "b"), kind="function", width="max(a, b)", saved="a + b",
    checks={"a == b or a == 1 or b == 1": "the widths {a} and {b} differ"},
    initial_scale="unknown",
    example="h = norm(x); x = x + min(linear.a(h, width), linear.b(h, width)) * min(mlp(h), 7)",
    equation="y = the smaller of a and b",
)
class Minimum(Word):
    """y = the smaller of a and b, channel by channel: of two streams of equal width, or one of width 1, or of a stream
    and a number. Of numbers alone it is a number, and takes any count of them."""

    @staticmethod
    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.minimum(a, b)


@word(
    "max", like="min",
    example="h = norm(x); x = x + max(linear.a(h, width), linear.b(h, width)) * max(mlp(h), 0)",
    equation="y = the larger of a and b",
    source="two of them are a maxout: Goodfellow et al., 1302.4389",
)
class Maximum(Word):
    """y = the larger of a and b, channel by channel: of two streams of equal width, or one of width 1, or of a stream
    and a number. Of numbers alone it is a number, and takes any count of them."""

    @staticmethod
    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b)


@word(
    "topk", streams=(("x",), ("x", "by")), numbers=("k",), kind="function", width="x", saved="x / 4",
    chooses=("x", "by"),
    options={
        "k": whole("how many channels are kept", minimum=1),
        "size": whole("so many are kept of each slice of this many channels", "x", minimum=1),
    },
    checks={
        "x % size == 0": "the width {x} does not divide into slices of {size}",
        "k <= size": "{k} channels of {size} are kept",
        "by == 0 or by == x": "x has {x} channels, and by= has {by}",
    },
    initial_scale="unknown",
    example="h = norm(x); w = topk(softmax(linear.router(h, 8)), 2); x = x + experts(h, n=8, active=2, weights=w)",
    equation="y_c = x_c where c is one of the k largest channels of x, or of by, else 0",
    source="of experts: Shazeer et al., 1701.06538; of hidden units: Makhzani and Frey, 1312.5663",
)
class TopK(Word):
    """y_c = x_c at the k channels where x is largest, else 0: (..., x) to (..., x).

    `by=r`, of as many channels, chooses in the place of x: y_c = x_c at the k channels where r is largest. With `size=`
    k are kept in each slice of so many channels. Of equal channels any may be kept, but k are. The gradient goes to
    what is kept; the choice has none, and so `by` has none.

    What is kept is often divided by its sum: with w = topk(softmax(r), k), w / sum(w) is the softmax of r over the k
    largest. topk(ones(r, n), k, by=r) is 1 where r is largest.
    """

    @staticmethod
    def function(x: Tensor, by: Tensor | None = None, *, k: int, size: int) -> Tensor:
        ranks = split(x if by is None else by, -1, size).detach()
        kept = torch.zeros_like(ranks).scatter(-1, ranks.topk(k, -1).indices, 1.0)
        return torch.where(kept.flatten(-2) > 0, x, 0)


@word(
    "where", like="min", streams=("test", "a", "b"), width="max(test, a, b)", saved="test + a + b",
    checks={
        "test == a or test == 1 or a == 1": "the widths {test} and {a} differ",
        "test == b or test == 1 or b == 1": "the widths {test} and {b} differ",
        "a == b or a == 1 or b == 1": "the widths {a} and {b} differ",
    },
    example="h = linear(norm(x), width); x = x + where(h, h ** 2, -0.1 * h)",
    equation="y = a where test > 0, else b",
)
class WhereAbove(Word):
    """y = a where test > 0, else b, channel by channel: of streams of equal width, or of width 1, or of numbers.

    `where(a - b, x, y)` compares two streams. No gradient reaches the test, nor, at a channel, the side that is not
    taken; what is not taken must be finite nevertheless, or the gradient of what it is made of is not.
    """

    @staticmethod
    def function(test: Tensor, a: Tensor, b: Tensor) -> Tensor:
        y = torch.where(test > 0, a, b)
        return y if a.dim() or b.dim() else y.to(test.dtype)  # of two numbers it would be float64


@word(
    "stop_gradient", like="gelu", saved="0", constant="c", nonzero="positive",
    example="x = x + mlp(norm(x)) + 0.1 * linear(stop_gradient(x), width)",
    equation="y = x, through which no gradient flows",
)
class StopGradient(Word):
    """y = x; in training nothing that y goes into changes what x is made of."""

    function = staticmethod(torch.detach)


@word(
    "dropout", streams=("x",), numbers=("p",), kind="chance",
    options={
        "p": number(
            "probability of zeroing a number; default: the file's `dropout`, or 0", "dropout", minimum=0, maximum=1,
            absent=0,
        )
    },
    saved="0 if p == 0 else x / 4", initial_scale="same",
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
        return cpu.dropout(x, p) if training and p else x


@word(
    "droppath", like="dropout",
    options={
        "p": number(
            "probability of dropping a sample; default: the file's `droppath`, or 0", "droppath", minimum=0, maximum=1,
            absent=0,
        )
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
        if not training or not p:
            return x
        if p >= 1:
            return x * 0
        kept = torch.rand(x.shape[0], *([1] * (x.dim() - 1)), device=x.device) >= p
        return x * (kept.to(x.dtype) / (1 - p))
