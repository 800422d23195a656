"""Positions as waves: `sinusoids`."""

from __future__ import annotations

import torch
from torch import Tensor

from .tables import table_rows
from .word import At, Word, flag, number, whole, word


@word(
    "sinusoids",
    streams=((), ("x",)),
    kind="input",
    width="size",
    order="'sinusoids' if at == 0 else ''",
    real="rows",
    positional=True,
    options={
        "rows": whole("without a stream: how many positions", 0, minimum=0),
        "at": number("a number that stands for every position; 0: none", 0, minimum=0),
        "first": whole("the number that the first position stands for", 0),
        "size": whole("width of the result", "width", minimum=1),
        "base": number("base of the wavelengths: the longest is 2 pi times it", 10000, minimum=1),
        "halves": flag("all sines first, then all cosines, not in turn"),
    },
    checks={
        "rows > 0 or x > 0": "without a stream it needs rows=, the number of positions",
        "at == 0 or first == 0": "it takes a number for every position (at=) or for the first one (first=), not both",
    },
    initial_scale="sqrt(0.5)",
    example="before: x = sqrt(width) * embed.words(tokens) + sinusoids(tokens)",
    equation="y_i[2c] = sin(n / base**(2c / size)), y_i[2c + 1] = cos(n / base**(2c / size)), n = first + i",
    source="Vaswani et al. 2017",
)
class Sinusoids(Word):
    """Position i as waves of size / 2 lengths: sin and cos of (first + i) / base^(2c / size), i from 0, at any length.

    With a stream x (or ids), y is (batch, length, size), one row's vectors for all of the batch unless decoding rows
    stand at different positions; `at=n` gives every position the vector of the number n (Universal Transformer's step).
    Without a stream y is (1, rows, size), a sequence of its own: with first=0 a table of the distances 0, 1, ..., as
    `relative` reads it in a causal stack; with rows=2 * n and first=-n one of -n to n - 1, as it reads it elsewhere.
    Sines and cosines in turn, as in the paper; `halves=True` is the layout of Transformer-XL, XLNet, Marian and
    Pegasus. No parameters; made in float64, given in the model's dtype.
    """

    def __init__(
        self,
        size: int,
        rows: int = 0,
        at: float = 0,
        first: int = 0,
        base: float = 10000,
        halves: bool = False,
        x: int | None = None,
    ) -> None:
        super().__init__()
        self.like: Tensor
        self.size, self.rows, self.at, self.first, self.base, self.halves = size, rows, at, first, base, halves
        # follows .to(): what dtype and device the result has where only ids are given
        self.register_buffer("like", torch.empty(0), persistent=False)

    def _table(self, length: int, like: Tensor, start: int = 0) -> Tensor:
        """The vectors of the positions start, start + 1, ..."""
        like = like if like.is_floating_point() else self.like
        arguments = (self.first, self.size, self.base, self.halves)
        return table_rows(waves_table, arguments, start, length, like.dtype, like.device)[0]

    def _number(self, like: Tensor) -> Tensor:
        like = like if like.is_floating_point() else self.like
        numbers = torch.tensor([float(self.at)], dtype=torch.float64, device="cpu")
        return waves(numbers, self.size, self.base, self.halves).to(like.device, like.dtype)

    def forward(self, x: Tensor | None = None) -> Tensor:
        if x is None:
            return self._table(self.rows, self.like)[None]
        if self.at:
            return self._number(x).expand(x.shape[0], x.shape[1], self.size)
        return self._table(x.shape[1], x).expand(x.shape[0], -1, -1)

    def step(self, x: Tensor | None = None, *, at: At) -> Tensor:
        """The vectors of this chunk's positions; without a stream, all rows."""
        if x is None or self.at:
            return self.forward(x)
        length = x.shape[1]
        if at.start is not None:
            return self._table(length, x, at.start).expand(x.shape[0], -1, -1)
        return self._table(at.longest + length, x)[at.positions(length)]


def waves_table(positions: Tensor, first: int, size: int, base: float, halves: bool) -> tuple[Tensor]:
    """`waves` from `first` on, as a table that is kept."""
    return (waves(positions + first, size, base, halves),)


def waves(positions: Tensor, size: int, base: float, halves: bool) -> Tensor:
    """(positions, size) in float64: sines and cosines of each position at size / 2 wave lengths."""
    pairs = (size + 1) // 2
    rates = base ** (-torch.arange(pairs, dtype=torch.float64, device=positions.device) * 2 / size)
    angles = positions[:, None] * rates
    if halves:
        return torch.cat((angles.sin(), angles[:, : size // 2].cos()), 1)
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)[:, :size]
