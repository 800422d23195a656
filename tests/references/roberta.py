"""Post-norm encoder; the first position is row 2 of its table."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, embed, encoder_layer, filled_in, layer_norm, layers


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens) + p["before.positions.weight"][2 : tokens.shape[1] + 2]
    x = layer_norm(p("before.norm"), x)
    for layer in layers(p, n):
        x = encoder_layer(layer, x, n)
    return filled_in(p, x)
