"""Pre-norm; odd heads see the last positions, even heads every so many of them further back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layer_norm, layers, mlp, unembed


def hiding(length: int, heads: int, sees: Callable[[int, int, int], bool]) -> list[Tensor]:
    """For each head, counted from 1, 0 where i sees j and minus infinity elsewhere."""
    bias = torch.full((heads, length, length), -math.inf, dtype=torch.float64)
    for h in range(heads):
        for i in range(length):
            for j in range(i + 1):
                if sees(h + 1, i, j):
                    bias[h, i, j] = 0
    return list(bias)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    stride = int(n["window"])

    def sees(h: int, i: int, j: int) -> bool:
        return i - j < stride if h % 2 else (i - j) % stride == 0

    x, bias = embed_with_positions(p, tokens), hiding(tokens.shape[1], int(n["heads"]), sees)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, bias=bias)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
