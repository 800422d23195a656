"""Pre-norm; half of the channels in attention, the others in a gated convolution."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    convolved,
    embed_with_positions,
    layer_norm,
    layers,
    linear,
    mlp,
    sigmoid,
    unembed,
)


def near(p: Parameters, x: Tensor) -> Tensor:
    """Through a gate, three positions up to this one, a matrix."""
    return linear(p("output"), convolved(p("conv"), linear(p("value"), x) * sigmoid(linear(p("gate"), x))))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        one, other = layer_norm(layer("norm"), x).chunk(2, -1)
        x = x + torch.cat([attention(layer("attention"), one, n), near(layer("near"), other)], -1)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
