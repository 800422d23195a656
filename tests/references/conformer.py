"""Half an MLP, attention over all, a gated convolution with a batch norm, half an MLP, a norm."""

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


def batch_norm(p: Parameters, x: Tensor) -> Tensor:
    """With the running statistics: w (x - mean) / sqrt(variance + eps) + b."""
    return p["weight"] * (x - p["running_mean"]) / (p["running_var"] + 1e-5) ** 0.5 + p["bias"]


def convolution(p: Parameters, x: Tensor) -> Tensor:
    """Through a gate, 31 positions around, a batch norm, SiLU, a matrix."""
    g = linear(p("value"), x) * sigmoid(linear(p("gate"), x))
    return linear(p("output"), silu(batch_norm(p("output_input_batchnorm"), convolved(p("conv"), g, 15))))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + mlp(layer("first"), layer_norm(layer("first_input_norm"), x), silu) / 2
        u = layer_norm(layer("attention_input_norm"), x)
        x = x + attention(layer("attention"), u, n, base=10000, causal=False)
        x = x + convolution(layer("convolution"), layer_norm(layer("convolution_input_norm"), x))
        x = x + mlp(layer("last"), layer_norm(layer("last_input_norm"), x), silu) / 2
        x = layer_norm(layer("last_sum_norm"), x)
    return unembed(p, x)
