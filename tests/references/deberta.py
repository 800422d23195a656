"""Post-norm encoder; content against content, content against distance and distance against content."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, filled_in, layer_norm, layers, linear, mlp

EPS = 1e-7


def disentangled(
    p: Parameters, x: Tensor, keys: Tensor, queries: Tensor, heads: int, row: Callable[[int], int]
) -> Tensor:
    """softmax((q_i . k_j + q_i . keys_r + k_j . queries_r) / sqrt(3 size)) v_j, r the row of the distance i - j."""
    q, k, v = linear(p("query"), x), linear(p("key"), x), linear(p("value"), x)
    size, length = x.shape[-1] // heads, x.shape[1]
    result = torch.zeros_like(q)
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        for i in range(length):
            scores = []
            for j in range(length):
                a, b, r = q[:, i, part], k[:, j, part], row(i - j)
                scores.append((a * b).sum(-1) + a @ keys[r, part] + b @ queries[r, part])
            weights = torch.softmax(torch.stack(scores, -1) / (3 * size) ** 0.5, -1)
            result[:, i, part] = (weights[..., None] * v[..., part]).sum(1)
    return linear(p("output"), result)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, span = layer_norm(p("before.norm"), embed(p, tokens), EPS), int(n["context"])
    for layer in layers(p, n):
        inside = layer("disentangled")
        keys, queries = (linear(inside(name), p["distances.weight"]) for name in ("place_key", "place_query"))
        a = disentangled(inside, x, keys, queries, int(n["heads"]), lambda d: min(max(d + span, 0), 2 * span - 1))
        x = layer_norm(layer("disentangled_sum_norm"), x + a, EPS)
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x), EPS)
    return filled_in(p, x, EPS)
