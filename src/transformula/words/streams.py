"""Several residual streams in one, side by side: `expand read write collapse` (hyper-connections and their kin).

X (batch, length, n * width) holds n streams X_1, ..., X_n. A branch reads one mixture of them and is written to all:

    X = expand(x, n)                     before the layers
    X = write(X, branch(norm(read(X))))  in them
    x = collapse(X)                      after them

`read` and `write` have weights that may depend, position by position, on the streams themselves. Kinds:

hc        Hyper-Connections (2409.19606): any weights. X_s is read with a_s = w_s + g tanh(U u_s), u_s = X_s / rms(X_s)
mhc       Manifold-Constrained Hyper-Connections (2512.24880): what is read is positive, what mixes the streams doubly
          stochastic, so that no product of mixtures grows. Weights depend on u = X / rms(X), all streams at once
mhc_lite  the same (2601.05732), the mixture being a mean of the n! permutations: exactly doubly stochastic
frac      Frac-Connections (2503.14125): x itself in n parts, in the place of n copies; neither expand nor collapse

All start as a plain pre-norm net whose branches take turns among the streams: see `read` and `write`.
"""

import itertools
import math

import torch
from torch import Tensor

from .cpu import autocast_type, without_autocast
from .rms import unit_linear
from .tables import cached_table
from .word import GeneratorFor, Word, choice, empty, flag, number, split, whole, word


@word(
    "expand",
    streams=("x",),
    numbers=("n",),
    kind="streams",
    width="n * x",
    options={"n": whole("number of streams", minimum=1)},
    initial_scale="copies",
    example="X = write(X, mlp(norm(read(X))))\n"
    "before: X = expand(embed.words(tokens) + positions(tokens), 4)\n"
    "after: x = norm(collapse(X))",
    equation="X = [x, ..., x]",
    source="Hyper-Connections, 2409.19606",
)
class Expand(Word):
    """n copies of x side by side: (batch, length, x) to (batch, length, n x)."""

    @staticmethod
    def function(x: Tensor, *, n: int) -> Tensor:
        return x.unsqueeze(-2).expand(*x.shape[:-1], n, x.shape[-1]).flatten(-2)


@word(
    "collapse",
    like="expand",
    streams=("X",),
    width="X // n",
    options={"n": whole("number of streams", "max(1, X // width)", minimum=1)},
    checks={
        "X % n == 0 and (n != max(1, X // width) or X % width == 0)": (
            "its {X} channels are not streams of width {width}; make them by expand(x, n), or say n="
        )
    },
    initial_scale="one of copies * n",
    equation="x = sum of the streams",
)
class Collapse(Word):
    """The sum of n streams: (batch, length, n width) to (batch, length, width)."""

    @staticmethod
    def function(X: Tensor, *, n: int) -> Tensor:
        return split(X, n, -1).sum(-2)


class _Connection(Word):
    """What `read` and `write` share: logits static + scale * W u, u the streams over their root mean square.

    Of "hc" and "frac" each stream has its own u, and tanh stands before the scale; of "mhc" all have one. W u is cut
    into parts, of `sizes`: the first goes to `static` and `scale`, a second to `gain` and `gain_scale`.
    """

    constants = {"weight": 0, "scale": 0.01}

    def __init__(self, X: int, n: int, kind: str, dynamic: bool, eps: float, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.n, self.size, self.kind, self.eps, self.sizes = n, X // n, kind, eps, sizes
        self.each = kind in ("hc", "frac")
        self.static = empty(n, sizes[0]) if self.each else empty(sizes[0])
        self.weight = empty(sum(sizes), X // n if self.each else X) if dynamic else None
        self.scale = empty(1) if dynamic else None

    def product(self, x: Tensor) -> Tensor | None:
        """W u, x (positions, n, size) to (positions, n, ...), of mhc (positions, ...); None: nothing is dynamic."""
        if self.weight is None:
            return None
        product = unit_linear(x if self.each else x.flatten(1), self.weight, self.eps)
        # frac: part by part, later; Inductor (2.13, CPU) makes a wrong gradient of what a part of a tanh multiplies
        return product.tanh() if self.kind == "hc" else product

    def logits(self, static: Tensor, scale: Tensor | None, part: Tensor | None) -> Tensor:
        """static + scale * part; of mhc in float32 or better, for no plain product follows. What is static alone has
        one position for all."""
        if not self.each:
            static = to_precise(static)
        if part is None or scale is None:
            return static.unsqueeze(0)
        if self.each:
            return torch.addcmul(static, part.tanh() if self.kind == "frac" else part, scale)
        return torch.addcmul(static, to_precise(part), to_precise(scale))


def to_precise(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


@word(
    "read",
    streams=("X",),
    kind="streams",
    width="X if kind == 'frac' else X // n",
    options={
        "kind": choice(
            "hc: any weights, mhc, mhc_lite: positive ones, frac: a mixture for each of x's own parts",
            ["hc", "mhc", "mhc_lite", "frac"], shapes=True,
        ),
        "n": whole("number of streams, or parts", "max(1, X // width)", minimum=1, shapes=True),
        "first": whole(
            "stream that is read at initialization, counted cyclically (frac: each its own part)",
            "1 if kind == 'frac' else (layer - 1) % n + 1", minimum=1, absent=1,
        ),
        "dynamic": flag("whether weights depend on X", True, shapes=True),
        "eps": number("of the norm of X", 1e-06, minimum=0),
    },
    parameters={
        "static": "n * n if kind == 'frac' else n",
        "weight": "(n * X if kind == 'mhc' or kind == 'mhc_lite' else X if kind == 'frac' else X // n) * dynamic",
        "scale": "1 * dynamic",
    },
    checks={
        "X % n == 0 and (n != max(1, X // width) or X % width == 0)": (
            "its {X} channels are not streams of width {width}; make them by expand(x, n), or say n="
        ),
        "kind != 'frac' or n > 1": "of how many parts? say n=4, or make copies by expand(x, n) and leave out kind=",
    },
    flops=("2 * X * (n if kind == 'frac' else 1) + 2 * X * (0 if not dynamic else 1 if kind == 'hc' else n)"),
    saved="X + ((3 * n * n + n if kind == 'frac' else 4 * n if kind == 'hc' else 1 + 3 * n) if dynamic else 0)",
    initial_scale="one of copies * "
    "(1 if kind == 'hc' or kind == 'frac' else 1 / (1 + exp(-1)) + (n - 1) / (1 + exp(1)))",
    example="X = write(X, mlp(norm(read(X))))\n"
    "before: X = expand(embed.words(tokens) + positions(tokens), 4)\n"
    "after: x = norm(collapse(X))",
    equation="y = a(X) X; hc: a_s = w_s + g tanh(U X_s / rms(X_s)); mhc: a = sigmoid(w + g U X / rms(X))",
    source="Hyper-Connections, 2409.19606; mHC, 2512.24880; Frac-Connections, 2503.14125",
)
class Read(_Connection):
    """What a branch reads of n streams: y = sum over s of a_s X_s, position by position.

    X (batch, length, n size) to y (batch, length, size). With u_s = X_s / rms(X_s), u = X / rms(X):

        hc         a_s = static_s + scale tanh(weight u_s)      weight (1, size)
        mhc        a_s = sigmoid(static_s + scale (weight u)_s) weight (n, n size); mhc_lite alike
        frac       y_t = sum over s of A_st X_s, A_st = static_st + scale tanh(weight u_s)_t, weight (n, size);
                   y (batch, length, n size)

    Initial values: weight 0 and scale 0.01, so that only the static part counts. hc: 1 for stream `first` (counted
    round and round from 1) and 0 for the others, which is the paper's round robin; `first` goes by the number of the
    layer unless given, as in `read(X, first=2 * layer)` for the second sublayer of each. mhc: 1 for that stream and -1
    for the others, before the sigmoid, as mHC-lite's authors have it (the paper is silent on it). frac: each part
    itself. `dynamic=False`: static alone.

    Departures: an RMS norm without weights, which W holds, where the paper of hc has a LayerNorm. mhc's weights are
    made in float32.
    """

    def __init__(self, X: int, n: int, kind: str, first: int, dynamic: bool, eps: float) -> None:
        super().__init__(X, n, kind, dynamic, eps, (1,) if kind == "hc" else (n,))
        self.first = (first - 1) % n

    @torch.no_grad()
    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        if self.kind == "frac":
            self.static.copy_(torch.eye(self.n))
        else:
            self.static.fill_(0 if self.kind == "hc" else -1)
            self.static[self.first] = 1

    def forward(self, X: Tensor) -> Tensor:
        x = X.reshape(-1, self.n, self.size)
        product = self.product(x)
        weights = self.logits(self.static, self.scale, product)
        weights = weights.mT if self.each else torch.sigmoid(weights).to(x.dtype).unsqueeze(-2)
        if product is None:
            weights = weights.expand(x.shape[0], -1, -1)
        return torch.bmm(weights, x).view(X.shape[0], X.shape[1], -1)


@word(
    "write",
    streams=("X", "y"),
    kind="streams",
    options={
        "kind": choice(
            "hc: any mixture, mhc: doubly stochastic, mhc_lite: a mean of permutations, frac: of x's own parts",
            ["hc", "mhc", "mhc_lite", "frac"], shapes=True,
        ),
        "steps": whole("mhc: number of Sinkhorn iterations", 20, minimum=1),
        "n": whole("number of streams, or parts", "max(1, X // y)", minimum=1, shapes=True),
        "dynamic": flag("whether weights depend on X", True, shapes=True),
        "eps": number("of the norm of X", 1e-06, minimum=0),
    },
    parameters={
        "static": (
            "n * n if kind != 'mhc_lite' else 1 if n < 2 else 2 if n < 3 else 6 if n < 4 else 24 if n < 5 else 120"
        ),
        "gain": "n",
        "weight": (
            "((n + 1) * X // n if kind == 'hc' or kind == 'frac' else X * (n + (n * n if kind == 'mhc' else "
            "1 if n < 2 else 2 if n < 3 else 6 if n < 4 else 24 if n < 5 else 120))) * dynamic"
        ),
        "scale": "1 * dynamic",
        "gain_scale": "1 * dynamic",
    },
    checks={
        "kind == 'frac' or X == n * y": "its {X} channels are not {n} streams of the branch's width {y}",
        "kind != 'frac' or X == y": "what is written in parts is as wide as x: the widths are {X} and {y}",
        "kind != 'frac' or n > 1": "of how many parts? say n=4, or make copies by expand(x, n) and leave out kind=",
        "X % n == 0": "the width {X} does not divide into {n} parts",
        "kind != 'mhc_lite' or n <= 5": "a mean of {n}! permutations is too many: take up to 5 streams, or kind='mhc'",
        "kind == 'mhc' or steps == 20": "only kind='mhc' has steps",
    },
    flops=(
        "2 * n * X + (0 if not dynamic else 2 * (n + 1) * X if kind == 'hc' or kind == 'frac' else "
        "2 * X * (n + n * n) if kind == 'mhc' else "
        "2 * X * n + 2 * (X + n * n) * (1 if n < 2 else 2 if n < 3 else 6 if n < 4 else 24 if n < 5 else 120))"
    ),
    # X itself is kept by `read`
    saved=(
        "y + ((3 * n * n + 4 * n if kind == 'hc' or kind == 'frac' else "
        "1 + 4 * n + (2 + 2 * steps) * n * n if kind == 'mhc' else "
        "1 + 4 * n + n * n + 3 * (1 if n < 2 else 2 if n < 3 else 6 if n < 4 else 24 if n < 5 else 120)) "
        "if dynamic else 0)"
    ),
    initial_scale="added",
    example="X = write(X, mlp(norm(read(X))))\n"
    "before: X = expand(embed.words(tokens) + positions(tokens), 4)\n"
    "after: x = norm(collapse(X))",
    equation="X = A(X) X + b(X) y; mhc: A doubly stochastic, b = 2 sigmoid(...)",
    source="Hyper-Connections, 2409.19606; mHC, 2512.24880; mHC-lite, 2601.05732; Frac-Connections, 2503.14125",
)
class Write(_Connection):
    """Mixes n streams and adds a branch's result: X_t = sum over s of A_ts X_s + b_t y, position by position.

    X (batch, length, n size), y (batch, length, size). With u_s = X_s / rms(X_s), u = X / rms(X), row by row

        hc         A_ts = static_st + scale tanh(weight u_s)_t, b_s = gain_s + gain_scale tanh(weight u_s)_(n + 1);
                   weight (n + 1, size), static (n, n), gain (n, 1)
        mhc        A = Sinkhorn(static + scale M u), b = 2 sigmoid(gain + gain_scale G u), weight = [M, G] (n n + n, n
                   size), static (n n,) row by row, gain (n,)
        mhc_lite   A = the sum over permutations P_k of softmax(static + scale M u)_k P_k, static (n!,), the rest as mhc
        frac       as hc, y in parts, too (as wide as X): X_t = sum over s of A_ts X_s + b_t y_t

    Sinkhorn(z): exp(z), then `steps` times its columns and its rows divided by their sums, in float32 or better, as
    logarithms; the rows come last, so that n equal streams stay as they are, whatever the weights.

    Initial values: weight 0, scale 0.01, and static such that A is 1 (mhc: all but; off the diagonal e^-8) and b is 1:
    every stream is x + branch, the pre-norm net. `dynamic=False`: static alone. Departures: as in `read`; mhc's static
    part is mHC-lite's, whose authors let gains differ by stream; DeepSeek-V4 starts at 0 (all streams averaged) with
    random weights.
    """

    def __init__(self, X: int, y: int, n: int, kind: str, steps: int, dynamic: bool, eps: float) -> None:
        each, mixing = kind in ("hc", "frac"), math.factorial(n) if kind == "mhc_lite" else n * n
        super().__init__(X, n, kind, dynamic, eps, (n, 1) if each else (mixing, n))
        self.steps = steps
        self.gain = empty(n, 1) if each else empty(n)
        self.gain_scale = empty(1) if dynamic else None
        self.constants = {**self.constants, "gain": 1 if each else 0, "gain_scale": 0.01}

    @torch.no_grad()
    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        if self.each:
            self.static.copy_(torch.eye(self.n))
        elif self.kind == "mhc":
            self.static.copy_(-8 * (1 - torch.eye(self.n)).flatten())  # what is hardly mixed: e^-8 is 0.0003
        else:
            self.static.fill_(-8)
            self.static[0] = 0  # the first permutation is the identity

    def weights(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (positions, n, size) to A (positions, n, n), row by row, and b (positions, n, 1); static: one position."""
        product = self.product(x)
        parts = (None, None) if product is None else product.split_with_sizes(self.sizes, -1)
        mixing = self.logits(self.static, self.scale, parts[0])
        gain = self.logits(self.gain, self.gain_scale, parts[1])
        if self.each:
            return mixing.mT, gain
        if self.kind == "mhc":
            mixing = sinkhorn(split(mixing, self.n, self.n), self.steps)
        else:
            (orders,) = cached_table(permutations, (self.n,), self.sizes[0], mixing.dtype, mixing.device)
            mixing = split(torch.softmax(mixing, -1) @ orders, self.n, self.n)
        return mixing.to(x.dtype), (2 * torch.sigmoid(gain)).to(x.dtype).unsqueeze(-1)

    def forward(self, X: Tensor, y: Tensor) -> Tensor:
        if autocast_type(X.device.type):
            y = y.to(X.dtype)
        with without_autocast(X.device.type):  # sums of streams stay as precise as a plain x + y would be
            return self.mix(X, y)

    def mix(self, X: Tensor, y: Tensor) -> Tensor:
        """X and y of one dtype to the new X."""
        if X.shape[:-1] != y.shape[:-1]:  # what is one for the whole batch
            rows = torch.broadcast_shapes(X.shape[:-1], y.shape[:-1])  # type: ignore[no-untyped-call]
            X, y = X.expand(*rows, -1), y.expand(*rows, -1)
        x = X.reshape(-1, self.n, self.size)
        mixing, gain = self.weights(x)
        if self.weight is None:
            mixing, gain = mixing.expand(x.shape[0], -1, -1), gain.expand(x.shape[0], -1, -1)
        mixture = torch.bmm(mixing, x)
        if self.kind == "frac":
            return mixture.addcmul_(gain, y.reshape(x.shape)).view(X.shape)
        return mixture.baddbmm_(gain, y.reshape(-1, 1, self.size)).view(X.shape)


def sinkhorn(logits: Tensor, steps: int) -> Tensor:
    """logits (positions, n, n) to positive matrices whose rows sum to 1, and whose columns do in the limit of steps.
    As logarithms, so that nothing overflows or vanishes; positions last, so that one call divides many matrices at once
    (7 times as fast as sums and quotients of a matrix each)."""
    z = logits.permute(1, 2, 0).contiguous()
    for _ in range(steps):
        z = torch.log_softmax(torch.log_softmax(z, 0), 1)
    return z.exp().permute(2, 0, 1)


def permutations(positions: Tensor, n: int) -> tuple[Tensor]:
    """(n!, n n): all permutation matrices, the identity first, each as one row."""
    unit = torch.eye(n, dtype=torch.float64)
    return (torch.stack([unit[list(order)].flatten() for order in itertools.permutations(range(n))]),)
