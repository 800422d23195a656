"""Pre-norm with rotary positions; layers 1, 3, ... make keys and values, each for itself and the layer above it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, core, embed, layer_norm, layers, linear, mlp, rotary, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, heads, kv_heads = embed(p, tokens), int(n["heads"]), int(n["kv_heads"])
    k = v = x
    for number, layer in enumerate(layers(p, n), 1):
        if number % 2:
            u = layer_norm(layer("key_input_norm"), x)
            k, v = rotary(linear(layer("key"), u), kv_heads), linear(layer("value"), u)
        else:
            u = layer_norm(layer("look_input_norm"), x)
        q = rotary(linear(layer("look.query"), u), heads)
        x = x + linear(layer("look.output"), core(q, k, v, heads, kv_heads))
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
