"""Pre-norm; in every second layer one expert a position, weighed by its share of the softmax over all."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    experts,
    layer_norm,
    layers,
    mlp,
    relu,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        if number % 2 == 1:
            x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), relu)
        else:
            u = layer_norm(layer("experts_input_norm"), x)
            x = x + experts(layer("experts"), u, 1, relu, renormalise=False)
    return unembed(p, layer_norm(p("after.norm"), x))
