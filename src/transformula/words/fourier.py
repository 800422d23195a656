"""Mixing by the Fourier transform: `fourier`."""

import math

import torch
from torch import Tensor

from .word import Word, word


@word(
    "fourier",
    streams=("x",),
    kind="positions",
    reach="all",
    padding=True,
    order="'recurrent'",
    example="causal: false\nlayer: x = norm(x + fourier(x)); x = norm(x + mlp(x))",
    equation="y_ic = sum over j and d of x_jd cos(2 pi (i j / n + c d / x)), i, c, j, d from 0, n real positions",
    source="FNet: Lee-Thorp et al., 2105.03824",
)
class Fourier(Word):
    """y = the real part of the Fourier transform of x over its n real positions and its channels: (batch, length, x) to
    the same; no parameters.

        y_ic = sum over j < n and d < x of x_jd cos(2 pi (i j / n + c d / x)), i, c, j, d from 0

    Not scaled. It sees all positions, so a causal stack refuses it. Computed in float32 at least, by a fast transform
    where all rows have one length, else by matrices of their own.
    """

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        if real is None and not torch.compiler.is_exporting():
            transform: Tensor = torch.fft.fft2(wide)
            return transform.real.to(x.dtype)
        return self.by_matrices(wide, real).to(x.dtype)

    def by_matrices(self, x: Tensor, real: Tensor | None) -> Tensor:
        """The same by products with matrices of cosines and sines: each row by those of its own length."""
        batch, length, width = x.shape
        if real is None:
            counts = torch.full((1,), length, device=x.device)
        else:
            counts, x = real.sum(1).clamp(min=1), x.masked_fill(~real[..., None], 0)
        cosine, sine = waves(length, counts, x)
        of_channels, odd = waves(width, torch.full((1,), width, device=x.device), x)
        return cosine @ (x @ of_channels) - sine @ (x @ odd)


def waves(size: int, counts: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi i j / n, (rows, size, size), for each n of `counts`, (rows,): of whole numbers, so that no
    digits are lost."""
    steps = torch.arange(size, device=like.device)
    turns = (steps[:, None] * steps) % counts[:, None, None]
    angles = (2 * math.pi / counts.to(like.dtype))[:, None, None] * turns
    return torch.cos(angles), torch.sin(angles)
