"""Normed x and normed y both into the second sum."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layer_norm, layers, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = layer_norm(layer("norm"), x)
        y = x + attention(layer("attention"), x, n)
        y = layer_norm(layer("attention_sum_norm"), y)
        x = x + y + mlp(layer("mlp"), y)
    return unembed(p, layer_norm(p("after.norm"), x))
