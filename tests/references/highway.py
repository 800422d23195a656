"""g = sigmoid(W x + b); x = g sublayer(norm(x)) + (1 - g) x."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    layer_norm,
    layers,
    linear,
    mlp,
    sigmoid,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        f = attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        g = sigmoid(linear(layer("attention_output_gate"), x))
        x = g * f + (1 - g) * x
        f = mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
        g = sigmoid(linear(layer("mlp_output_gate"), x))
        x = g * f + (1 - g) * x
    return unembed(p, layer_norm(p("after.norm"), x))
