"""A norm on the embedding; scores fall with the distance; slopes of the nearest power of two, then between them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.alibi import slopes
from tests.references.plain import Parameters, attention, embed, gelu_tanh, layer_norm, layers, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    full, heads = n["full"], int(n["heads"])
    x = layer_norm(p("before.norm"), embed(p, tokens))
    even, odd = 2 ** (-8 / full), 2 ** (-8 / (2 * full))
    factors = [even ** (h + 1) if h < full else odd ** (2 * (h - full) + 1) for h in range(heads)]
    bias = slopes(tokens.shape[1], factors)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, bias=bias)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), gelu_tanh)
    return unembed(p, layer_norm(p("after.norm"), x))
