"""Taking streams apart and putting them together, without weights: `part join repeat dot`; `shift` along positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .word import At, Word, flag, split, whole, word


@word(
    "part",
    streams=("x",),
    numbers=("i", "n"),
    kind="shape",
    width="x // n",
    options={
        "i": whole("which part, from 1", minimum=1),
        "n": whole("number of equal parts", minimum=1),
    },
    checks={
        "x % n == 0": "the width {x} does not divide into {n} parts",
        "i <= n": "there is no part {i} of {n}; parts are counted from 1",
    },
    initial_scale="same",
    example="h = linear(norm(x), 2 * width); x = x + part(h, 1, 2) * sigmoid(part(h, 2, 2))",
    equation="y = channels (i - 1) x / n to i x / n of x",
)
class ChannelPart(Word):
    """Part i of n equal parts of the channels, i from 1: (..., x) to (..., x / n)."""

    @staticmethod
    def function(x: Tensor, *, i: int, n: int) -> Tensor:
        """A view of x."""
        size = x.shape[-1] // n
        return x[..., (i - 1) * size : i * size]


@word(
    "join",
    streams=("a", "b"),
    kind="shape",
    width="a + b",
    options={
        "parts": whole("number of parts, which are joined one by one", 1, minimum=1),
    },
    checks={"a % parts == 0 and b % parts == 0": "the widths {a} and {b} do not both divide into {parts} parts"},
    initial_scale="unknown",
    example="x = x + linear(join(x, norm(x)), width)",
    equation="y = [a_1, b_1, ..., a_n, b_n]",
)
class Join(Word):
    """The channels of a, then those of b; with `parts=n`, part by part: the first of a, the first of b, ..."""

    @staticmethod
    def function(a: Tensor, b: Tensor, *, parts: int = 1) -> Tensor:
        """(..., a) and (..., b) to (..., a + b)."""
        if parts > 1:
            a, b = split(a, parts, -1), split(b, parts, -1)
        shape = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])  # type: ignore[no-untyped-call]
        y = torch.cat((a.expand(*shape, -1), b.expand(*shape, -1)), -1)
        return y.flatten(-2) if parts > 1 else y


@word(
    "repeat",
    streams=("x",),
    numbers=("n",),
    kind="shape",
    width="n * x",
    options={
        "n": whole("number of copies", minimum=1),
        "each": flag("every channel n times in a row, not all n times over"),
    },
    initial_scale="same",
    example="x = x + repeat(linear(norm(x), width // 4), 4)",
    equation="y = [x, x, ...], each: y = [x_1, x_1, ..., x_2, x_2, ...]",
)
class Repeat(Word):
    """All channels n times over; with `each=True` every channel n times in a row: (..., x) to (..., n x)."""

    @staticmethod
    def function(x: Tensor, *, n: int, each: bool = False) -> Tensor:
        """Copies of x."""
        if each:
            return x.repeat_interleave(n, -1)
        return torch.cat([x] * n, -1)


@word(
    "dot",
    streams=("a", "b"),
    kind="shape",
    width="1",
    equal=True,
    saved="2 * a",
    initial_scale="dot",
    example="y = mlp(norm(x)); x = x + sigmoid(dot(x, y)) * y",
    equation="y = sum over channels of a b",
)
class Dot(Word):
    """The inner product of two vectors at each position: (..., a) and (..., a) to (..., 1)."""

    @staticmethod
    def function(a: Tensor, b: Tensor) -> Tensor:
        """Summed in the precision of a."""
        return (a * b).sum(-1, keepdim=True)


@word(
    "shift",
    streams=("x",),
    numbers=("n",),
    kind="positions",
    width="x",
    reach="past",
    back="n",
    order="'recurrent'",
    options={
        "n": whole("number of positions to shift by", 1, minimum=1),
    },
    state="n * x / length",
    example="x = x + mlp(norm(shift(x)))",
    equation="y_i = x_(i - n), 0 before the start",
    source="token shift of RWKV, 2305.13048",
)
class Shift(Word):
    """y_i = x_(i - n), and 0 for the first n positions: what stood n places back; same shape as x.

    Looks back in a stack that sees all, too. Decoding keeps the last n positions.
    """

    def __init__(self, x: int, n: int = 1, causal: bool = True) -> None:
        super().__init__()
        self.x, self.n = x, n

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, self.n, 0))[:, : x.shape[1]]

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> dict[str, Tensor]:
        """The n positions before the first: zeros."""
        return {"last": torch.zeros(batch, self.n, self.x, dtype=dtype, device=device)}

    def step(self, x: Tensor, *, state: Any, at: At) -> Tensor:
        """The chunk, shifted; the state keeps the last n real positions."""
        length = x.shape[1]
        both = torch.cat((state["last"], x), 1)
        if at.new is None:
            state["last"] = both[:, length:]
        else:
            kept = at.new[:, None] + torch.arange(self.n, device=x.device)
            state["last"] = both.gather(1, kept[..., None].expand(-1, -1, self.x))
        return both[:, :length]
