"""Two streams: x in post-norm, r the sum of the embedding and all branches; x + norm(r) at the end."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    layer_norm,
    layers,
    mlp,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    made = [x]
    for layer in layers(p, n):
        made.append(attention(layer("attention"), x, n))
        x = layer_norm(layer("attention_sum_norm"), x + made[-1])
        made.append(mlp(layer("mlp"), x))
        x = layer_norm(layer("mlp_sum_norm"), x + made[-1])
    return unembed(p, x + layer_norm(p("after.norm"), sum(made[1:], made[0])))
