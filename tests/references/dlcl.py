"""Each layer reads a weighted sum of the norms of all results so far, in pre-norm."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed,
    layer_norm,
    layers,
    mlp,
    unembed,
    weighted,
)


def waves(length: int, width: int) -> Tensor:
    """sin(i / 10000^(2c / width)) in channel 2c of position i, the cosine in channel 2c + 1."""
    table = torch.empty(length, width, dtype=torch.float64)
    for i in range(length):
        for c in range(width // 2):
            angle = i / 10000 ** (2 * c / width)
            table[i, 2 * c], table[i, 2 * c + 1] = math.sin(angle), math.cos(angle)
    return table


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens) + waves(tokens.shape[1], int(n["width"]))
    kept = [layer_norm(p("before.norm"), x)]
    for layer in layers(p, n):
        u = weighted(layer["mix.weight"], kept)
        y = u + attention(layer("attention"), layer_norm(layer("attention_input_norm"), u), n)
        y = y + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), y))
        kept.append(layer_norm(layer("mlp_sum_norm"), y))
    return unembed(p, weighted(p["after.mix.weight"], kept))
