"""Rotary positions: `rotary`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from .tables import cached_table, table_rows
from .word import At, Word, flag, number, split, whole, word


@word(
    "rotary",
    streams=("x",),
    kind="input",
    width="x",
    positional=True,
    rotary="base",
    ordered=True,
    options={
        "base": number("base of the wavelengths: the longest is 2 pi times it", 10000, minimum=1),
        "heads": whole("number of heads, which are rotated alike", "heads", minimum=1),
        "part": number("fraction of each head's channels that are rotated", 1, minimum=0, maximum=1),
        "pairs": flag("rotate pairs of neighboring channels, not of the two halves"),
    },
    checks={"x % heads == 0": "the width {x} does not divide into {heads} heads"},
    saved="0",
    initial_scale="same",
    example="h = norm(x); q = rotary(linear.q(h, width)); "
    "x = x + dot_attention(q, rotary(linear.k(h, width)), linear.v(h, width))",
    equation="pairs of channels of each head turned by the angle i / base**(2c / size)",
    source="Su et al., 2104.09864",
)
class Rotary(Word):
    """Each head's channels, in pairs, turned by an angle that grows with the position i (from 0); same shape.

    Pair c of a head of `size` channels turns by i / base^(2c / size). A pair is (c, c + size/2), as in LLaMA, or with
    `pairs=True` (2c, 2c + 1), as in the paper and GPT-J. `part`: only the first part * size channels of a head turn. No
    parameters. Raises InputError if the part that turns is odd.
    """

    def __init__(self, x: int, heads: int, base: float = 10000, part: float = 1, pairs: bool = False) -> None:
        super().__init__()
        self.heads, self.base, self.pairs = heads, base, pairs
        self.turned = turned_channels(x // heads, part)

    def _turn(self, x: Tensor, at: At | None) -> Tensor:
        batch, length, width = x.shape
        heads = x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        tables = rotation_tables(heads, self.turned, self.base, self.pairs, at)
        return rotate(heads, tables, self.turned, self.pairs).transpose(1, 2).reshape(batch, length, width)

    def forward(self, x: Tensor) -> Tensor:
        return self._turn(x, None)

    def step(self, x: Tensor, *, at: At) -> Tensor:
        """The chunk's positions, turned by their own angles."""
        return self._turn(x, at)


def turned_channels(size: int, part: float) -> int:
    """How many channels of a head of `size` turn. Raises InputError for an odd number."""
    turned = round(part * size)
    if turned % 2:
        raise InputError(f"rotary turns pairs of channels; {turned} of a head's {size} channels is odd")
    return turned


def rotations(positions: Tensor, size: int, base: float, pairs: bool) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines, each (positions, size): y = x cos + swapped(x) sin."""
    rates = base ** (-torch.arange(0, size, 2, dtype=torch.float64, device=positions.device) / size)
    angles = positions[:, None] * rates
    cos, sin = angles.cos(), angles.sin()
    if pairs:
        return torch.stack((cos, cos), 2).flatten(1), torch.stack((-sin, sin), 2).flatten(1)
    return torch.cat((cos, cos), 1), torch.cat((-sin, sin), 1)


def rotation_tables(like: Tensor, turned: int, base: float, pairs: bool, at: At | None) -> tuple[Tensor, Tensor]:
    """The tables for the positions of `like` (batch, heads, length, size): each (length, turned), or
    (batch, 1, length, turned)."""
    length = like.shape[2]
    if at is None:
        cos, sin = cached_table(rotations, (turned, base, pairs), length, like.dtype, like.device)
        return cos, sin
    key = ("rotary", turned, base, pairs, length, like.dtype, like.device)
    tables: tuple[Tensor, Tensor] | None = at.kept.get(key)
    if tables is None:
        arguments = (turned, base, pairs)
        if at.start is not None:
            cos, sin = table_rows(rotations, arguments, at.start, length, like.dtype, like.device)
            tables = cos, sin
        else:
            cos, sin = cached_table(rotations, arguments, at.longest + length, like.dtype, like.device)
            rows = at.positions(length)
            tables = cos[rows][:, None], sin[rows][:, None]
        at.kept[key] = tables
    return tables


def rotate(x: Tensor, tables: tuple[Tensor, Tensor], turned: int, pairs: bool) -> Tensor:
    """Turn the first `turned` channels of x (batch, heads, length, size)."""
    cos, sin = tables
    if turned < x.shape[-1]:
        return torch.cat((rotate(x[..., :turned], tables, turned, pairs), x[..., turned:]), -1)
    if pairs:
        swapped = split(x, turned // 2, 2).flip(-1).flatten(-2)
    else:
        swapped = torch.roll(x, turned // 2, -1)
    return torch.addcmul(x * cos, swapped, sin)
