"""What is no function of a stream: the learned numbers `scalar` and `vector`, the numbers `arange`, the sequence
`learned`."""

import torch
from torch import Tensor

from .word import TypedWord, Word, empty, number, whole, word


@word(
    "scalar",
    streams=((),),
    numbers=("init",),
    kind="coefficient",
    value="coefficient",
    sequence="none",
    width="1",
    options={"init": number("initial value")},
    parameters={"weight": "1"},
    initial_scale="init",
    example="x = x + scalar(0) * mlp(norm(x))",
    equation="y = a learned number",
    source="ReZero: Bachlechner et al., 2003.04887",
)
class Scalar(Word):
    """A learned number, (1,). weight (1,), init."""

    def __init__(self, init: float) -> None:
        super().__init__()
        self.constants = {"weight": init}
        self.weight = empty(1)

    def forward(self) -> Tensor:
        return self.weight


@word(
    "vector",
    like="scalar",
    numbers=("init", "size"),
    width="size",
    options={
        "init": number("initial value of every channel"),
        "size": whole("number of channels", "width", minimum=1, shapes=True),
        "stored": number("the parameter is the value divided by this number", 1, minimum=1e-09),
    },
    parameters={"weight": "size"},
    example="x = x + vector(1e-4) * mlp(norm(x))",
    equation="y = stored * w, a learned number for each channel",
    source="LayerScale: Touvron et al., 2103.17239; stored: nGPT, 2410.01131",
)
class Vector(Word):
    """A learned number for each channel, (size,).

    weight (size,): the value divided by `stored`, so init / stored; the value is stored * weight. An optimizer with
    steps of one size (Adam) so moves the value `stored` times as fast.
    """

    def __init__(self, init: float, size: int, stored: float) -> None:
        super().__init__()
        self.constants, self.stored = {"weight": init / stored}, stored
        self.weight = empty(size)

    def forward(self) -> Tensor:
        return self.weight if self.stored == 1 else self.weight * self.stored


@word(
    "arange",
    streams=((),),
    numbers=("size",),
    kind="coefficient",
    value="coefficient",
    sequence="none",
    width="size",
    options={"size": whole("number of channels", "width", minimum=1)},
    initial_scale="sqrt((size - 1) * (2 * size - 1) / 6)",
    example="v = linear(norm(x), width)\nx = x + scan(norm(x), norm(x), v, -exp(-log(2) * (5 + arange(heads))))",
    equation="y_c = c, from 0 to size - 1",
)
class Arange(TypedWord):
    """y = 0, 1, ..., size - 1, by the channels: (size,), the same at every position. No parameters.

    Constants that differ by channel or head are functions of it: `-exp(-log(2) * (5 + arange(heads)))`.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self) -> Tensor:
        return torch.arange(self.size, dtype=self.like.dtype, device=self.like.device)


@word(
    "learned",
    streams=((),),
    numbers=("rows", "size"),
    kind="input",
    width="size",
    sequence="own",
    real="rows",
    options={
        "rows": whole("number of positions", minimum=1, shapes=True),
        "size": whole("width of the result", "width", minimum=1, shapes=True),
    },
    parameters={"weight": "rows * size"},
    example="x = x + attention(norm(x), learned(16))",
    equation="y = a learned sequence",
    source="class token: ViT, 2010.11929; latents: Perceiver, 2103.03206",
)
class Learned(Word):
    """y = a learned sequence of `rows` vectors: (1, rows, size), one for the whole batch.

    What it meets widens it: sums and products by broadcasting, `prepend` by itself. weight (rows, size), from
    N(0, 0.02^2).
    """

    deviations = {"weight": 0.02}

    def __init__(self, rows: int, size: int) -> None:
        super().__init__()
        self.weight = empty(rows, size)

    def forward(self) -> Tensor:
        return self.weight[None]
