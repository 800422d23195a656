"""Post-norm encoder; words, positions and types are added and normed."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, embed_with_positions, encoder_layer, filled_in, layer_norm, layers


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, given["tokens"]) + p["types.weight"][given["types"]]
    x = layer_norm(p("before.norm"), x, 1e-12)
    for layer in layers(p, n):
        x = encoder_layer(layer, x, n, 1e-12)
    return filled_in(p, x, 1e-12)
