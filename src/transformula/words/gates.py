"""Gates: `gate`, a weight for each channel, and `gru_gate`, which merges two streams."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .word import Word, empty, matrix, number, whole, word


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

    def __init__(self, x: int, size: int, bias: float = -2) -> None:
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
    width="x",
    equal=True,
    options={
        "bias": number("initial value of b: the larger, the more of x passes", 2),
    },
    parameters={"input.weight": "3 * x * x", "state.weight": "2 * x * x", "candidate.weight": "x * x", "bias": "x"},
    flops="12 * x * x",
    saved="8 * x",
    initial_scale="unknown",
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

    def __init__(self, x: int, y: int | None = None, bias: float = 2) -> None:
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
        return torch.lerp(x, candidate, update)
