"""x = a sublayer(norm(x)) + b x + B A x."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layer_norm, layers, linear, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        low = layer("lowrank")
        a = attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        x = layer["a1.weight"] * a + layer["b1.weight"] * x + linear(low("up"), linear(low("down"), x))
        low = layer("lowrank_2")
        f = mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
        x = layer["a2.weight"] * f + layer["b2.weight"] * x + linear(low("up"), linear(low("down"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
