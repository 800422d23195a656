"""x = norm(x + attention(x)); x = norm(x + mlp(x))."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layer_norm, layers, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = layer_norm(layer("attention_sum_norm"), x + attention(layer("attention"), x, n))
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x))
    return unembed(p, x)
