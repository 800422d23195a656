"""After each layer a weighted sum of the embedding and of what all layers made, which the next layer reads."""

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
    weighted,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    made = [x]
    for layer in layers(p, n):
        h = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        h = h + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), h))
        made.append(h)
        x = weighted(layer["mlp_sum_mix.weight"], made)
    return unembed(p, layer_norm(p("after.norm"), x))
