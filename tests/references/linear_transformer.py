"""Post-norm; attention is a ratio of sums over the past."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed_with_positions, layer_norm, layers, linear, mlp, relu, unembed


def sums(p: Parameters, x: Tensor, heads: int) -> Tensor:
    """W_o of sum over j <= i of (f(q_i) f(k_j)) v_j / (sum over j <= i of f(q_i) f(k_j) + 1e-6), f(x) = elu(x) + 1."""

    def f(y: Tensor) -> Tensor:
        return torch.where(y > 0, y + 1, torch.exp(y.clamp(max=0)))

    q, k, v = (linear(p(name), x).chunk(heads, -1) for name in ("query", "key", "value"))
    made = []
    for h in range(heads):
        rows = []
        for i in range(x.shape[1]):
            weights = [(f(q[h][:, i]) * f(k[h][:, j])).sum(-1, keepdim=True) for j in range(i + 1)]
            total = sum(w * v[h][:, j] for j, w in enumerate(weights))
            rows.append(total / (sum(weights) + 1e-6))
        made.append(torch.stack(rows, 1))
    return linear(p("output"), torch.cat(made, -1))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = layer_norm(layer("linear_attention_sum_norm"), x + sums(layer("linear_attention"), x, int(n["heads"])))
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x, relu))
    return unembed(p, layer_norm(p("after.norm"), x))
