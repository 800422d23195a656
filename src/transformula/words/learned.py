"""A sequence that is learned: `learned`."""

from __future__ import annotations

from torch import Tensor

from .word import Word, empty, whole, word


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
    initial_scale="unknown",
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
