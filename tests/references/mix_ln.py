"""The first quarter of the layers in post-norm, the others in pre-norm."""

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
    for number, layer in enumerate(layers(p, n), 1):
        if number <= n["depth"] / 4:
            x = layer_norm(layer("attention_sum_norm"), x + attention(layer("attention"), x, n))
            x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x))
        else:
            x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
            x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
