"""Pre-norm; each layer of the second half first takes one stream off a stack of those that the first half left."""

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
    x = embed_with_positions(p, tokens)
    left = []
    for number, layer in enumerate(layers(p, n), 1):
        if number > n["depth"] / 2:
            x = x + layer["scalar.weight"] * left.pop()
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
        if number <= n["depth"] / 2:
            left.append(x)
    return unembed(p, layer_norm(p("after.norm"), x))
