"""Pre-norm; scores less a slope times the distance, each head with its own slope."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, unembed


def slopes(length: int, factors: list[float]) -> list[Tensor]:
    """For each head minus its factor times i - j."""
    i, j = torch.arange(length, dtype=torch.float64)[:, None], torch.arange(length, dtype=torch.float64)
    return [-factor * (i - j) for factor in factors]


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, heads = embed(p, tokens), int(n["heads"])
    bias = slopes(tokens.shape[1], [2 ** (-8 * (h + 1) / heads) for h in range(heads)])
    for layer in layers(p, n):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, bias=bias)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
