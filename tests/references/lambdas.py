"""At each layer's start a x + b x0, x0 what entered layer 1; then pre-norm."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    layer_norm,
    layers,
    mlp,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    first = x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = layer["scalar.weight"] * x + layer["scalar_2.weight"] * first
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
