"""Post-norm; the scores of a layer are added to those of the next."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    embed_with_positions,
    layer_norm,
    layers,
    linear,
    mlp,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    heads = int(n["heads"])
    x = layer_norm(p("before.norm"), embed_with_positions(p, tokens))
    seen = torch.ones(tokens.shape[1], tokens.shape[1], dtype=x.dtype).tril()
    before: list[Tensor] = []
    for layer in layers(p, n):
        inside = layer("attention")
        q, k, v = (linear(inside(name), x).chunk(heads, -1) for name in ("query", "key", "value"))
        scores = [a @ b.transpose(-1, -2) / a.shape[-1] ** 0.5 for a, b in zip(q, k, strict=True)]
        scores = [s + old for s, old in zip(scores, before, strict=True)] if before else scores
        made = []
        for s, values in zip(scores, v, strict=True):
            weights = torch.exp(s - s.max(-1, keepdim=True).values) * seen
            made.append(weights / weights.sum(-1, keepdim=True) @ values)
        before = scores
        x = layer_norm(layer("attention_sum_norm"), x + linear(inside("output"), torch.cat(made, -1)))
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x))
    return unembed(p, x)
