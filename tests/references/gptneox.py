"""Parallel branches, each of its own norm; rotary positions on a part of each head."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, embed, layer_norm, layers, linear, mlp, partly


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        a = partly(layer("attention"), layer_norm(layer("attention_input_norm"), x), int(n["heads"]), n["part"])
        x = x + a + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return linear(p("output.unembed"), layer_norm(p("after.norm"), x))
