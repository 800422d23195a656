"""One vector for a whole sequence: `mean` and `pick`."""

from __future__ import annotations

from torch import Tensor

from ..errors import InputError
from .cpu import tracing
from .word import Word, choice, whole, word


@word(
    "mean",
    streams=("x",),
    kind="positions",
    width="x",
    sequence="none",
    reach="all",
    padding=True,
    example="causal: false\noutput: logits = linear(mean(x), 10)",
    equation="y = mean of x over the real positions",
)
class Mean(Word):
    """y = the mean of x over its real positions: (batch, length, x) to (batch, 1, x), seen by all; no parameters.

    0 for a row without real positions.
    """

    def __init__(self, x: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if real is None:
            return x.mean(1, keepdim=True)
        total = x.masked_fill(~real[..., None], 0).sum(1, keepdim=True)
        return total / real.sum(1).clamp(min=1)[:, None, None].to(total.dtype)


@word(
    "pick",
    like="mean",
    numbers=("n",),
    kind="shape",
    options={
        "n": whole("which position, from 1; 0: as `at` says", 0, minimum=0),
        "at": choice("the last real position", ["", "end"]),
    },
    checks={
        "n > 0 or at == 'end'": 'it needs a position: pick(x, 1), or pick(x, at="end")',
        "n == 0 or at == ''": "it takes a position or at=, not both",
    },
    initial_scale="same",
    example='output: logits = linear(pick(x, at="end"), 10)',
    equation="y = x_n",
)
class Pick(Word):
    """y = x_n, one position: (batch, length, x) to (batch, 1, x), seen by all; no parameters.

    n counts from 1; `at="end"`: the last real position of each row. Raises InputError where a row has no position n
    (which code that is compiled or exported cannot look at, where only padding stands there).
    """

    def __init__(self, x: int, n: int = 0, at: str = "") -> None:
        super().__init__()
        self.n, self.at = n, at

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if self.at == "end":
            if real is None:
                return x[:, -1:]
            last = (real.sum(1) - 1).clamp(min=0)
            return x.gather(1, last[:, None, None].expand(-1, -1, x.shape[2]))
        shortest = x.shape[1]
        if real is not None and not tracing():
            shortest = int(real.sum(1).min())
        if self.n > shortest:
            raise InputError(f"pick(x, {self.n}): there is no position {self.n} in a sequence of {shortest}")
        return x[:, self.n - 1 : self.n]
