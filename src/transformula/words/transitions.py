"""What tag follows what: `transitions`, the potentials of a linear-chain conditional random field."""

import torch
from torch import Tensor

from .word import At, Word, empty, word


@word(
    "transitions",
    streams=("x",),
    kind="output",
    width="x * x",
    positional=True,
    parameters={"weight": "x * x", "first": "x"},
    example="causal: false\noutput: logits = transitions(linear(x, 9))",
    equation="y_t[i, j] = x_t[j] + T[i, j]; at the first position x_1[j] + S[j]",
    source="Lafferty et al. 2001; over a neural encoder: Lample et al., 1603.01360",
)
class Transitions(Word):
    """y_t[i, j] = x_t[j] + T[i, j]: how well tag j at position t goes with tag i before it; x_1[j] + S[j] at the first.

    x (batch, length, n), the emissions: a number for each of n tags; y (batch, length, n * n), place i * n + j the pair
    (i, j). With the sum s of a sequence of tags, s(z) = x_1[z_1] + S[z_1] + sum over t > 1 of y_t[z_(t-1), z_t], a
    conditional random field says P(z) = exp(s(z)) / sum over all z' of exp(s(z')). The first position has one row for
    all i.

    weight T (n, n), 0; first S (n,), 0: before training each position is judged by itself.
    """

    constants = {"weight": 0, "first": 0}

    def __init__(self, x: int) -> None:
        super().__init__()
        self.weight = empty(x, x)
        self.first = empty(x)

    def forward(self, x: Tensor, *, at: At | None = None) -> Tensor:
        length = x.shape[1]
        positions = torch.arange(length, device=x.device)[None] if at is None else at.positions(length)
        before = torch.where((positions == 0)[..., None, None], self.first, self.weight)
        return (x[:, :, None] + before).flatten(2)

    step = forward
