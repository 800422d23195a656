"""One layer again and again, x = norm(x + sublayer(x)) after waves for position and step; each position of each row
stops by itself, counted here in plain Python numbers, and is left with the mixture of what its steps made."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed,
    layer_norm,
    linear,
    mlp,
    relu,
    sigmoid,
    sinusoids,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, layer = embed(p, tokens), p("layers.0")
    batch, length = tokens.shape
    width, depth = int(n["width"]), int(n["depth"])
    waves = sinusoids(max(length, depth + 1), width)
    mixture = torch.zeros_like(x)
    total = [[0.0] * length for _ in range(batch)]
    for step in range(1, depth + 1):
        x = x + waves[:length] + waves[step]
        chances = sigmoid(linear(layer("halt"), x) + 1)
        x = layer_norm(layer("attention_sum_norm"), x + attention(layer("attention"), x, n))
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x, relu))
        for row in range(batch):
            for i in range(length):
                if total[row][i] >= 1:
                    continue
                weight = chances[row, i].item()
                if total[row][i] + weight > 1 - 0.01:
                    weight = 1 - total[row][i]
                    total[row][i] = 1.0
                else:
                    total[row][i] += weight
                mixture[row, i] = weight * x[row, i] + (1 - weight) * mixture[row, i]
    return unembed(p, mixture)
