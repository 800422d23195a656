"""Of each branch the part orthogonal to x at that position is added."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layer_norm, layers, mlp, unembed


def across(f: Tensor, x: Tensor) -> Tensor:
    """f less its projection on x."""
    along = (f * x).sum(-1, keepdim=True) / (x * x).sum(-1, keepdim=True)
    return f - along * x


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + across(attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n), x)
        x = x + across(mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x)), x)
    return unembed(p, layer_norm(p("after.norm"), x))
