"""Pre-norm with rotary positions; every position sees the last ones and the first ones."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, unembed
from tests.references.sparse_transformer import hiding


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    bias = hiding(tokens.shape[1], int(n["heads"]), lambda h, i, j: i - j < n["window"] or j < n["sinks"])
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), x)
        x = x + attention(layer("attention"), u, n, base=10000, bias=bias)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
