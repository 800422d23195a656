"""One sublayer a layer, in pre-norm: k times attention, then in turns, then k MLPs."""

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
    depth, k = int(n["depth"]), int(n["k"])
    turns = ["attention", "mlp"] * depth
    order = ["attention"] * k + turns[: depth - 2 * k] + ["mlp"] * k
    x = embed_with_positions(p, tokens)
    for word, layer in zip(order, layers(p, n), strict=True):
        u = layer_norm(layer(f"{word}_input_norm"), x)
        x = x + (attention(layer(word), u, n) if word == "attention" else mlp(layer(word), u))
    return unembed(p, layer_norm(p("after.norm"), x))
