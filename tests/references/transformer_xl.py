"""Post-norm; scores of content and of distance, each with a learned bias in the place of the query's position."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, layer_norm, layers, linear, mlp, relu, unembed


def wave(number: float, width: int) -> Tensor:
    """Sines, then cosines, of a number at width / 2 wave lengths."""
    angles = [number / 10000 ** (2 * c / width) for c in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def relative_core(p: Parameters, q: Tensor, x: Tensor, heads: int, seen: Tensor) -> Tensor:
    """softmax(((q_i + u) k_j + (q_i + v) W wave(i - j)) / sqrt(size)) v_j: u is `what`, v is `place`. seen (batch,
    queries, keys); a query that sees nothing gets 0."""
    batch, length, width = q.shape
    size = width // heads
    k, v = linear(p("key"), x), linear(p("value"), x)
    result = torch.zeros_like(q)
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        for i in range(length):
            content, place = q[:, i, part] + p["what.weight"][part], q[:, i, part] + p["place.weight"][part]
            scores = []
            for j in range(length):
                row = wave(i - j, width) @ p["place_key.weight"].T
                scores.append(((content * k[:, j, part]).sum(-1) + place @ row[part]) / math.sqrt(size))
            weights = torch.exp(torch.stack(scores, -1)) * seen[:, i]
            total = weights.sum(-1, keepdim=True)
            weights = weights / torch.where(total > 0, total, 1)
            result[:, i, part] = (weights[..., None] * v[..., part]).sum(1)
    return linear(p("output"), result)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, length = embed(p, tokens), tokens.shape[1]
    past = torch.ones(length, length, dtype=torch.float64).tril().expand(len(tokens), -1, -1)
    for layer in layers(p, n):
        inside = layer("attend")
        a = relative_core(inside, linear(inside("query"), x), x, int(n["heads"]), past)
        x = layer_norm(layer("attend_sum_norm"), x + a)
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x, relu))
    return unembed(p, x)
