"""Parallel branches of one norm; rotary positions on a part of each head; an output of its own, with a bias."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, embed, gelu_tanh, layer_norm, layers, linear, mlp, partly


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), x)
        x = x + partly(layer("attention"), u, int(n["heads"]), n["part"]) + mlp(layer("mlp"), u, gelu_tanh)
    return linear(p("output.unembed"), layer_norm(p("after.norm"), x))
