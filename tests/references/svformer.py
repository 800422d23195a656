"""Pre-norm with rotary positions; all layers use the values of layer 1."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    core,
    embed,
    layer_norm,
    layers,
    linear,
    mlp,
    rotary,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, heads, values = embed(p, tokens), int(n["heads"]), None
    for layer in layers(p, n):
        a, u = layer("single"), layer_norm(layer("first"), x)
        if values is None:
            values = linear(layer("values"), u)
        made = core(rotary(linear(a("query"), u), heads), rotary(linear(a("key"), u), heads), values, heads)
        x = x + linear(a("output"), made)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
