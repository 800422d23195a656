"""Pre-norm with g x / |x|, where g = sqrt(width) w."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, mlp, unembed, unit


def scale_norm(p: Parameters, x: Tensor) -> Tensor:
    """One number times x / sqrt(mean square + eps), which is sqrt(width) x / |x| but for eps."""
    return p["weight"] * unit(x)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), scale_norm(layer("attention_input_norm"), x), n)
        x = x + mlp(layer("mlp"), scale_norm(layer("mlp_input_norm"), x))
    return unembed(p, scale_norm(p("after.norm"), x))
