"""Pre-norm; scores less a learned logarithm of the distance, a factor and a rate for each head of each layer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, unembed


def falling(p: Parameters, length: int, heads: int) -> list[Tensor]:
    """-e^a log(1 + e^b (i - j)) for each head, 0 where j > i."""
    bias = torch.zeros(heads, length, length, dtype=torch.float64)
    for h in range(heads):
        factor, rate = torch.exp(p["table"][h, 0]), torch.exp(p["table_2"][h, 0])
        for i in range(length):
            for j in range(i):
                bias[h, i, j] = -factor * torch.log(1 + rate * (i - j))
    return list(bias)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        bias = falling(layer("attention.score"), tokens.shape[1], int(n["heads"]))
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, bias=bias)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
