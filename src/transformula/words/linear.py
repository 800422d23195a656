"""Matrices: `linear`, `lowrank`; and what is gated by them: `gate`, for each channel, `gru_gate`, of two streams."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .word import GeneratorFor, Word, empty, fill_matrix, flag, matrix, number, whole, word


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
    splits={"": "gathered"},
    split_by=("size",),
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
    splits={"down": "columns", "up": "rows"},
    split_by=("rank",),
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

    matrices = ("down",)
    constants = {"up.weight": 0, "up.bias": 0}

    def __init__(self, x: int, rank: int, size: int, bias: bool) -> None:
        super().__init__()
        self.down = matrix(x, rank, False)
        self.up = matrix(rank, size, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x))  # type: ignore[no-any-return]


@word(
    "gate",
    streams=("x",),
    kind="gate",
    width="size",
    options={
        "bias": number("initial value of b; the gate starts at sigmoid(bias)", -2),
        "size": whole("width of the result", "x", minimum=1, shapes=True),
    },
    parameters={"weight": "size * x", "bias": "size"},
    flops="2 * x * size",
    saved="x + size",
    initial_scale="1 / (1 + exp(-bias))",
    example="g = gate(x); x = (1 - g) * x + g * mlp(norm(x))",
    equation="y = sigmoid(W x + b)",
    source="Highway networks: Srivastava et al., 1505.00387",
)
class Gate(Word):
    """y = sigmoid(W x + b), between 0 and 1 for each channel: `g = gate(x); x = g * f + (1 - g) * x`.

    weight (size, x), 0; bias (size,), `bias`: the gate starts at sigmoid(bias) for every x. The paper draws
    W at random.
    """

    def __init__(self, x: int, size: int, bias: float) -> None:
        super().__init__()
        self.constants = {"weight": 0, "bias": bias}
        self.weight = empty(size, x)
        self.bias = empty(size)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(F.linear(x, self.weight, self.bias))


@word(
    "gru_gate",
    streams=("x", "y"),
    kind="gate",
    equal=True,
    options={"bias": number("initial value of b: the larger, the more of x passes", 2)},
    parameters={"input.weight": "3 * x * x", "state.weight": "2 * x * x", "candidate.weight": "x * x", "bias": "x"},
    flops="12 * x * x",
    saved="8 * x",
    example="x = gru_gate(x, relu(mlp(norm(x))))",
    equation="r = sigmoid(W_r y + U_r x), z = sigmoid(W_z y + U_z x - b), h = tanh(W_h y + U_h (r x)), "
    "result (1 - z) x + z h",
    source="GTrXL: Parisotto et al., 1910.06764",
)
class GRUGate(Word):
    """A gated recurrent unit in the place of the addition x + y; all (batch, length, x).

        r = sigmoid(W_r y + U_r x)      z = sigmoid(W_z y + U_z x - b)      h = tanh(W_h y + U_h (r * x))
        result = (1 - z) * x + z * h

    input.weight holds W_r, W_z, W_h (3 x, x); state.weight U_r, U_z (2 x, x); candidate.weight U_h (x, x): from
    N(0, 1 / (3 x)). bias b (x,), `bias`: at 2 the gate starts near the identity on x.
    """

    matrices = ("input", "state", "candidate")

    def __init__(self, x: int, y: int, bias: float) -> None:
        super().__init__()
        self.constants = {"bias": bias}
        self.input = matrix(x, 3 * x, False)
        self.state = matrix(x, 2 * x, False)
        self.candidate = matrix(x, x, False)
        self.bias = empty(x)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        from_y_reset, from_y_update, from_y = self.input(y).chunk(3, -1)
        from_x_reset, from_x_update = self.state(x).chunk(2, -1)
        reset = torch.sigmoid(from_y_reset + from_x_reset)
        update = torch.sigmoid(from_y_update + from_x_update - self.bias)
        candidate = torch.tanh(from_y + self.candidate(reset * x))
        return torch.lerp(x, candidate.to(x.dtype), update.to(x.dtype))  # under autocast each has its own type
