"""Pre-norm with RMSNorm: windows in the first half of the layers, one pair of keys and values for all of the second."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    core,
    embed,
    layers,
    linear,
    mlp,
    rms_norm,
    rotary,
    silu,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, heads, kv_heads = embed(p, tokens), int(n["heads"]), int(n["kv_heads"])
    k = v = x
    for number, layer in enumerate(layers(p, n), 1):
        if number <= n["depth"] // 2:
            u = rms_norm(layer("attention_input_norm"), x)
            x = x + attention(layer("attention"), u, n, 10000, int(n["window"]))
        else:
            q = rotary(linear(layer("query"), rms_norm(layer("query_input_norm"), x)), heads)
            x = x + linear(layer("output"), core(q, k, v, heads, kv_heads))
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
        if number == n["depth"] // 2:
            u = rms_norm(layer("shared"), x)
            k, v = rotary(linear(layer("key"), u), kv_heads), linear(layer("value"), u)
    return unembed(p, rms_norm(p("after.norm"), x))
