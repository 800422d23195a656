"""Pre-norm encoder of an image's squares, and a pre-norm decoder of words over it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, patches, unembed


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    memory = patches(p("encoder.before.patches"), given["image"], 16)
    memory = memory + p["encoder.before.positions.weight"][: memory.shape[1]]
    for layer in layers(p, n, "encoder"):
        u = layer_norm(layer("attention_input_norm"), memory)
        memory = memory + attention(layer("attention"), u, n, causal=False)
        memory = memory + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), memory))
    memory = layer_norm(p("encoder.after.norm"), memory)
    x = embed(p, given["tokens"]) + p["decoder.before.positions.weight"][: given["tokens"].shape[1]]
    for layer in layers(p, n, "decoder"):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        u = layer_norm(layer("cross_attention_input_norm"), x)
        x = x + attention(layer("cross_attention"), u, n, memory=memory)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("decoder.after.norm"), x))
