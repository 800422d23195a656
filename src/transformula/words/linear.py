"""Matrices: `linear`, and `lowrank` of two thin ones."""

from __future__ import annotations

from torch import Tensor

from .word import GeneratorFor, Word, fill, fill_matrix, flag, matrix, whole, word


@word(
    "linear",
    streams=("x",),
    numbers=("size",),
    kind="channels",
    width="size",
    linear=True,
    options={
        "size": whole("width of the result", minimum=1, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
    },
    parameters={"weight": "size * x", "bias": "size if bias else 0"},
    flops="2 * x * size",
    saved="x",
    example="x = x + linear.down(gelu(linear.up(norm(x), 4 * width)), width)",
    equation="y = W x + b",
)
class Linear(Word):
    """y = W x + b; x (batch, length, x), y (batch, length, size).

    weight (size, x), from N(0, 1 / (3 x)): the variance of PyTorch's default, drawn from a normal; bias (size,), 0. It
    is an `nn.Linear`.
    """

    layer = staticmethod(matrix)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill_matrix(self, generator_for)  # type: ignore[arg-type]


@word(
    "lowrank",
    streams=("x",),
    numbers=("rank", "size"),
    kind="channels",
    width="size",
    options={
        "rank": whole("rank: the width between the two matrices", minimum=1, shapes=True),
        "size": whole("width of the result", "x", minimum=1, shapes=True),
        "bias": flag("whether there is a bias b", shapes=True),
    },
    parameters={"down.weight": "rank * x", "up.weight": "size * rank", "up.bias": "size if bias else 0"},
    flops="2 * rank * (x + size)",
    saved="x + rank",
    example="x = x + lowrank(norm(x), 8)",
    equation="y = B A x + b",
    source="LAuReL, 2411.07501",
)
class LowRank(Word):
    """y = B A x + b, of rank `rank`; x (batch, length, x), y (batch, length, size).

    down.weight A (rank, x), from N(0, 1 / (3 x)); up.weight B (size, rank), 0, so that the branch starts at nothing, as
    in LAuReL; up.bias b (size,), 0, off by default.
    """

    def __init__(self, x: int, rank: int, size: int, bias: bool = False) -> None:
        super().__init__()
        self.down = matrix(x, rank, False)
        self.up = matrix(rank, size, bias)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill_matrix(self.down, generator_for, "down")
        fill(self.up.weight, 0)
        fill(self.up.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.up(self.down(x))
        return result
