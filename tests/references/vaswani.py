"""Post-norm encoder and decoder over one table of words; waves as positions."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, relu, sinusoids, unembed


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    memory, x = (
        n["width"] ** 0.5 * embed(p, given[name]) + sinusoids(given[name].shape[1], int(n["width"]))
        for name in ("source", "tokens")
    )
    for layer in layers(p, n, "encoder"):
        a = attention(layer("attention"), memory, n, causal=False)
        memory = layer_norm(layer("attention_sum_norm"), memory + a)
        memory = layer_norm(layer("mlp_sum_norm"), memory + mlp(layer("mlp"), memory, relu))
    for layer in layers(p, n, "decoder"):
        x = layer_norm(layer("attention_sum_norm"), x + attention(layer("attention"), x, n))
        a = attention(layer("cross_attention"), x, n, memory=memory)
        x = layer_norm(layer("cross_attention_sum_norm"), x + a)
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x, relu))
    return unembed(p, x)
