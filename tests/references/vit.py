"""Pre-norm encoder of an image's squares, before them one learned position, from which the class is read."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, layer_norm, layers, linear, mlp, patches


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    squares = patches(p("before.patches"), given["image"], 16)
    first = p["before.learned.weight"].expand(squares.shape[0], 1, -1)
    x = torch.cat([first, squares], 1)
    x = x + p["before.positions.weight"][: x.shape[1]]
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), x, 1e-6)
        x = x + attention(layer("attention"), u, n, causal=False)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x, 1e-6))
    return linear(p("output.linear"), layer_norm(p("after.norm"), x[:, :1], 1e-6))
