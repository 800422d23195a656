"""Pre-norm with rotary positions; from layer 2 on, values are the mean of the layer's own and those of layer 1."""

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
    x, heads, first = embed(p, tokens), int(n["heads"]), None
    for layer in layers(p, n):
        a, u = layer("residual"), layer_norm(layer("residual_input_norm"), x)
        v = linear(a("value"), u)
        if first is None:
            first = v
        else:
            v = (v + first) / 2
        made = core(rotary(linear(a("query"), u), heads), rotary(linear(a("key"), u), heads), v, heads)
        x = x + linear(a("output"), made)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
