"""Decoding of attention whose keys and values are linear in a narrower value, which alone is kept.

    k_h = [A_h c, r]    v_h = B_h c

absorbed   q_h' = [A_h^T q_h, r's part of q_h]: scores q_h' [c, r] for all positions, then y_h = B_h (weights c)
expanded   k and v of all that is kept, where that takes fewer products (a long chunk, the first one above all), or
           where A and B are more than matrices: biases, a layer that an adapter or a quantizer has put there
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .word import At, split


@dataclass(frozen=True)
class LatentPart:
    """Channels of each head: which source (its first channel among all, its width), how many, which matrix or None."""

    first: int
    width: int
    size: int
    matrix: int | None

    def of(self, kept: Tensor) -> Tensor:
        return kept[..., self.first : self.first + self.width]

    def make(self, kept: Tensor, heads: int, matrices: tuple[Any, ...]) -> Tensor:
        """Keys or values (batch, heads, keys, size) from what is kept (batch, keys, width)."""
        source = self.of(kept)
        if self.matrix is None:
            return source[:, None].expand(-1, heads, -1, -1)
        y: Tensor = matrices[self.matrix](source)
        return split(y, heads, self.size).transpose(1, 2)

    def by_head(self, heads: int, matrices: tuple[Any, ...]) -> Tensor:
        """Its matrix, (heads, size, width)."""
        assert self.matrix is not None
        weight: Tensor = matrices[self.matrix].weight
        return weight.view(heads, self.size, self.width)


@dataclass(frozen=True)
class LatentLayout:
    """The parts of a key, in order; the values; how many heads they are of; the width of the sources of keys."""

    keys: tuple[LatentPart, ...]
    value: LatentPart
    heads: int
    key_width: int

    def absorbs(self, length: int, keys: int, matrices: tuple[Any, ...]) -> bool:
        """Whether a chunk of `length` over so many keys takes fewer products in the absorbed form, by the head; in
        exported code, which must hold for every length, whether one position over many keys does."""
        if torch.compiler.is_exporting():
            length, keys = 1, 1024
        parts = (*self.keys, self.value)
        once = sum(part.width * part.size for part in parts if part.matrix is not None)
        absorbed = length * keys * (self.key_width + self.value.width) + length * once
        expanded = length * keys * sum(part.size for part in parts) + keys * once
        return absorbed < expanded and all(map(is_matrix, matrices))

    def queries(self, q: Tensor, matrices: tuple[Any, ...]) -> Tensor:
        """q_h' of q (batch, heads, length, size): (batch, heads, length, key_width)."""
        absorbed = q.new_zeros(*q.shape[:-1], self.key_width)
        for part, piece in zip(self.keys, torch.split(q, [part.size for part in self.keys], -1), strict=True):
            if part.matrix is not None:
                piece = self.times(piece, part.by_head(self.heads, matrices))
            part.of(absorbed).add_(piece)
        return absorbed

    def times(self, x: Tensor, weight: Tensor) -> Tensor:
        """x (batch, query heads, length, a) times weight (heads, a, b), each for so many query heads."""
        batch, heads, length, size = x.shape
        y = x.reshape(batch, self.heads, heads // self.heads * length, size) @ weight
        return y.view(batch, heads, length, -1)


def is_matrix(module: Any) -> bool:
    """Whether a module is W x and no more."""
    hooked = module._forward_hooks or module._forward_pre_hooks if isinstance(module, nn.Module) else True
    return type(module) is nn.Linear and module.bias is None and not hooked


def step(
    attention: Any, q: Tensor, *sources: Tensor, layout: LatentLayout, matrices: tuple[Any, ...], state: Any, at: At,
    taps: tuple[str, ...] = (), **ports: Any,
) -> Any:  # fmt: skip
    """`attention.step(q, k, v)` where k and v are made of the sources, each (batch, length, its width)."""
    settings, extras = attention.call("scores" in taps, **ports)
    batch, length, _ = q.shape
    q = split(q, attention.heads, attention.size).transpose(1, 2)
    chunk = torch.cat([source.expand(batch, -1, -1) for source in sources], -1)
    kept = state.inputs["latent"].append(chunk[:, None], at)
    if layout.absorbs(length, kept.shape[2], matrices):
        absorbed = layout.queries(q, matrices)
        k, v = kept[..., : layout.key_width], layout.value.of(kept)
        y, scores = state.over(absorbed, k, v, settings, extras, at)
        y = layout.times(y, layout.value.by_head(layout.heads, matrices).transpose(1, 2))
    else:
        k = torch.cat([part.make(kept[:, 0], layout.heads, matrices) for part in layout.keys], -1)
        v = layout.value.make(kept[:, 0], layout.heads, matrices)
        y, scores = state.over(q, k, v, settings, extras, at)
    return attention.result((y, scores), taps, q, k, v)
