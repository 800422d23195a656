"""Encoder: waves are added, then two separable convolutions, attention and a small MLP, each in a pre-norm branch."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    convolved,
    embed,
    layer_norm,
    layers,
    linear,
    mlp,
    relu,
    sinusoids,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + sinusoids(x.shape[1], x.shape[2])
        for name in ("one", "two"):
            near = convolved(layer(name)("conv"), layer_norm(layer(f"{name}_input_norm"), x), 3)
            x = x + relu(linear(layer(name)("linear"), near))
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, causal=False)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), relu)
    return unembed(p, x)
