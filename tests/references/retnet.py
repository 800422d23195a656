"""Pre-norm with RMSNorm; products of queries and keys, decaying with the distance, are the weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, layers, linear, mlp, rms_norm, silu, turned, unembed, unit


def retention(p: Parameters, x: Tensor, heads: int) -> Tensor:
    """W_o (silu(W_g x) rms(y)), y_i = sum over j <= i of g^(i - j) q_i . k_j / sqrt(size) v_j, head by head."""
    q, k = (turned(linear(p(name), x), heads, 1, pairs=True) for name in ("query", "key"))
    v, size = linear(p("value"), x), x.shape[-1] // heads
    made = torch.zeros_like(v)
    for h in range(heads):
        one, two = slice(h * size, (h + 1) * size), slice(2 * h * size, 2 * (h + 1) * size)
        kept = 1 - 2.0 ** (-5 - h)
        for i in range(x.shape[1]):
            for j in range(i + 1):
                weight = (q[:, i, one] * k[:, j, one]).sum(-1, keepdim=True) / size**0.5
                made[:, i, two] += kept ** (i - j) * weight * v[:, j, two]
    normed = torch.cat([unit(head) for head in made.chunk(heads, -1)], -1)
    return linear(p("output"), silu(linear(p("gate"), x)) * normed)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + retention(layer("retention"), rms_norm(layer("retention_input_norm"), x), int(n["heads"]))
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
    return unembed(p, rms_norm(p("after.norm"), x))
