"""Pre-norm with one more norm before the last matrix of each branch."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    core,
    embed_with_positions,
    gelu,
    layer_norm,
    layers,
    linear,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        a, f = layer("sub_attention"), layer("sub_mlp")
        u = layer_norm(layer("sub_attention_input_norm"), x)
        u = core(linear(a("query"), u), linear(a("key"), u), linear(a("value"), u), int(n["heads"]))
        x = x + linear(a("output"), layer_norm(a("output_input_norm"), u))
        u = gelu(linear(f("up"), layer_norm(layer("sub_mlp_input_norm"), x)))
        x = x + linear(f("down"), layer_norm(f("down_input_norm"), u))
    return unembed(p, layer_norm(p("after.norm"), x))
