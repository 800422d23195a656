"""Pre-norm; queries, keys and values are convolved before heads are made; ReLU squared."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    convolved,
    core,
    embed_with_positions,
    layer_norm,
    layers,
    linear,
    mlp,
    relu,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        u, a = layer_norm(layer("attention_input_norm"), x), layer("attention")
        q, k, v = (convolved(a(f"{name}_mixed"), linear(a(name), u)) for name in ("query", "key", "value"))
        x = x + linear(a("output"), core(q, k, v, int(n["heads"])))
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), lambda h: relu(h) ** 2)
    return unembed(p, layer_norm(p("after.norm"), x))
