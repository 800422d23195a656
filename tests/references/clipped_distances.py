"""Pre-norm; scores plus a learned number for each head and distance, further distances sharing the last."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, length = embed(p, tokens), tokens.shape[1]
    for layer in layers(p, n):
        table = layer("attention.score")["table"]
        bias = torch.zeros(int(n["heads"]), length, length, dtype=table.dtype)
        for i in range(length):
            for j in range(i + 1):
                bias[:, i, j] = table[:, min(i - j, int(n["furthest"]))]
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, bias=list(bias))
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
