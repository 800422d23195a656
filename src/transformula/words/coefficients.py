"""Learned numbers without a sequence: `scalar` and `vector`."""

from __future__ import annotations

from torch import Tensor

from .word import Word, empty, number, whole, word


@word(
    "scalar",
    streams=((),),
    numbers=("init",),
    kind="coefficient",
    value="coefficient",
    sequence="none",
    width="1",
    options={
        "init": number("initial value"),
    },
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

    def __init__(self, init: float, size: int, stored: float = 1) -> None:
        super().__init__()
        self.constants, self.stored = {"weight": init / stored}, stored
        self.weight = empty(size)

    def forward(self) -> Tensor:
        return self.weight if self.stored == 1 else self.weight * self.stored
