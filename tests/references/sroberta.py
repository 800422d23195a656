"""Post-norm encoder; the mean of its positions."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, embed, encoder_layer, layer_norm, layers


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py; the result is a vector for each row."""
    x = embed(p, tokens) + p["before.positions.weight"][2 : 2 + tokens.shape[1]]
    x = layer_norm(p("before.norm"), x)
    for layer in layers(p, n):
        x = encoder_layer(layer, x, n)
    return x.sum(1, keepdim=True) / x.shape[1]
