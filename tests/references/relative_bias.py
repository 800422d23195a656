"""Pre-norm; one learned bias of bucketed distances, added to the scores of every layer."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, unembed
from tests.references.t5 import distances


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    bias = distances(p("before.relative_bias"), tokens.shape[1], int(n["heads"]), False)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, bias=bias)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
