"""Pre-norm; every layer of the decoder attends to its own mixture of the encoder's layers."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed,
    layer_norm,
    layers,
    mlp,
    relu,
    sinusoids,
    unembed,
    weighted,
)


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    memory, x = (
        embed(p, given[name]) + sinusoids(given[name].shape[1], int(n["width"])) for name in ("source", "tokens")
    )
    kept = [memory]
    for layer in layers(p, n, "encoder"):
        memory = memory + attention(
            layer("attention"), layer_norm(layer("attention_input_norm"), memory), n, causal=False
        )
        memory = memory + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), memory), relu)
        kept.append(memory)
    for layer in layers(p, n, "decoder"):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        u = layer_norm(layer("cross_attention_input_norm"), x)
        mixed = layer_norm(layer("cross_attention_input_norm_2"), weighted(layer["mix.weight"], kept))
        x = x + attention(layer("cross_attention"), u, n, memory=mixed)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), relu)
    return unembed(p, layer_norm(p("decoder.after.norm"), x))
