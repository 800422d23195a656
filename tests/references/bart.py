"""Post-norm encoder and decoder; learned positions of each, normed with the words; a bias for each word."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, encoder_layer, layer_norm, layers, mlp, unembed


def entered(p: Parameters, ids: Tensor, stack: str) -> Tensor:
    """Words and positions, the first in row 2, normed."""
    x = embed(p, ids) + p[f"{stack}.before.positions.weight"][2 : ids.shape[1] + 2]
    return layer_norm(p(f"{stack}.before.norm"), x)


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    memory, x = entered(p, given["source"], "encoder"), entered(p, given["tokens"], "decoder")
    for layer in layers(p, n, "encoder"):
        memory = encoder_layer(layer, memory, n)
    for layer in layers(p, n, "decoder"):
        x = layer_norm(layer("attention_sum_norm"), x + attention(layer("attention"), x, n))
        a = attention(layer("cross_attention"), x, n, memory=memory)
        x = layer_norm(layer("cross_attention_sum_norm"), x + a)
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x))
    return unembed(p, x) + p["output.vector.weight"]
