"""Parallel branches of one norm; all heads share one of keys and values."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), x)
        x = x + attention(layer("attention"), u, n, 10000) + mlp(layer("mlp"), u)
    return unembed(p, layer_norm(p("after.norm"), x))
