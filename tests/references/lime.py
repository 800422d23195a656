"""Pre-norm with rotary positions; keys and values are weighted sums of this layer's and those of all layers below."""

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
    weighted,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, heads = embed(p, tokens), int(n["heads"])
    keys: list[Tensor] = []
    values: list[Tensor] = []
    for layer in layers(p, n):
        u = layer_norm(layer("key_input_norm"), x)
        keys.append(linear(layer("key"), u))
        values.append(linear(layer("value"), u))
        k, v = weighted(layer["keys.weight"], keys), weighted(layer["values.weight"], values)
        q = linear(layer("query"), u)
        x = x + linear(layer("output"), core(rotary(q, heads), rotary(k, heads), v, heads))
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
