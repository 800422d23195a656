"""Attention and MLP side by side; every fourth layer sees all and has no positions, the others turn by pairs of
neighbors and have a window."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, core, embed, layer_norm, layers, linear, mlp, rotated, silu, unembed


def turned(x: Tensor, heads: int) -> Tensor:
    """Channels 2c and 2c + 1 of each head together. The first of all pairs come to stand before the second, in queries
    and keys alike, which products do not mind."""
    return torch.cat([rotated(torch.cat([h[..., 0::2], h[..., 1::2]], -1), 50000) for h in x.chunk(heads, -1)], -1)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    heads, kv_heads, x = int(n["heads"]), int(n["kv_heads"]), embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        u, a = layer_norm(layer("attention_input_norm"), x), layer("attention")
        q, k, v = (linear(a(name), u) for name in ("query", "key", "value"))
        if number % 4:
            q, k = turned(q, heads), turned(k, kv_heads)
        y = core(q, k, v, heads, kv_heads, int(n["window"]) if number % 4 else 0)
        x = x + linear(a("output"), y) + mlp(layer("mlp"), u, silu)
    return 0.25 * unembed(p, layer_norm(p("after.norm"), x))
