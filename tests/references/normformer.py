"""A norm after attention, a factor for each head, a norm between the matrices of the MLP, a vector on the skip."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    core,
    embed_with_positions,
    gelu,
    layer_norm,
    layers,
    linear,
    unembed,
)


def scaled(p: Parameters, x: Tensor, heads: int) -> Tensor:
    """Attention whose heads are each times a learned number before they are projected."""
    q, k, v = linear(p("query"), x), linear(p("key"), x), linear(p("value"), x)
    parts = core(q, k, v, heads).chunk(heads, -1)
    return linear(p("output"), torch.cat([p["head_scale.weight"][h] * part for h, part in enumerate(parts)], -1))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        a = scaled(layer("scaled"), layer_norm(layer("scaled_input_norm"), x), int(n["heads"]))
        x = x + layer_norm(layer("scaled_output_norm"), a)
        u = layer_norm(layer("inner_input_norm"), x)
        u = layer_norm(layer("inner.down_input_norm"), gelu(linear(layer("inner.up"), u)))
        x = layer["vector.weight"] * x + linear(layer("inner.down"), u)
    return unembed(p, layer_norm(p("after.norm"), x))
