"""A language model around a reference's blocks: tables, the blocks, a norm, the output tied to the table of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tests.peers.carry import Theirs, Weights
from tests.peers.case import CONTEXT, VOCAB, WIDTH

COLUMNS = 4
"""A grid of positions has so many, where nothing else is said."""


class Around(nn.Module):
    """logits = words norm(blocks(words[tokens] + positions)); `call(block, x)`: how a block is run causally."""

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        call: Callable[[nn.Module, Tensor], Tensor],
        norm: bool,
        context: int = CONTEXT,
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(context, WIDTH)
        self.blocks, self.call = nn.ModuleList(blocks), call
        self.norm = nn.LayerNorm(WIDTH) if norm else None

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = self.call(block, x)
        if self.norm is not None:
            x = self.norm(x)
        return x @ self.words.weight.T


def around(layer: Callable[[str, Theirs], Weights]) -> Callable[[Theirs], Weights]:
    """The tables and the norm; `layer`: the weights of one block, given our name of the layer and theirs."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("words")
        yield "before.positions", theirs("positions")
        for n, block in theirs.layers("blocks"):
            yield from layer(f"layers.{n}", block)
        if theirs.has("norm"):
            yield "after.norm", theirs("norm")

    return weights


def causal(length: int) -> Tensor:
    """(length, length): -inf where a position lies ahead, else 0."""
    return torch.full((length, length), float("-inf")).triu(1)


def channels_first(block: nn.Module, x: Tensor, columns: int = COLUMNS) -> Tensor:
    """A block of (batch, channels, rows, columns), where positions are a grid, row by row."""
    y: Tensor = block(x.transpose(1, 2).unflatten(2, (-1, columns)))
    return y.flatten(2).transpose(1, 2)


def channels_last(block: nn.Module, x: Tensor, columns: int = COLUMNS) -> Tensor:
    """A block of (batch, rows, columns, channels), where positions are a grid, row by row."""
    y: Tensor = block(x.unflatten(1, (-1, columns)))
    return y.flatten(1, 2)
