"""As the Conformer, of the past only: causal attention and convolution, a layer norm for the batch norm."""

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
    sigmoid,
    silu,
    unembed,
)


def convolution(p: Parameters, x: Tensor) -> Tensor:
    """Through a gate, 15 positions up to this one, a norm, SiLU, a matrix."""
    g = linear(p("value"), x) * sigmoid(linear(p("gate"), x))
    return linear(p("output"), silu(layer_norm(p("output_input_norm"), convolved(p("conv"), g))))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + mlp(layer("first"), layer_norm(layer("first_input_norm"), x), silu) / 2
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, base=10000)
        x = x + convolution(layer("convolution"), layer_norm(layer("convolution_input_norm"), x))
        x = x + mlp(layer("last"), layer_norm(layer("last_input_norm"), x), silu) / 2
        x = layer_norm(layer("last_sum_norm"), x)
    return unembed(p, x)
