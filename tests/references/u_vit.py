"""Pre-norm encoder of an image's squares; a layer of the second half reads what its mirror image left."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, layer_norm, layers, linear, mlp, patches


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = patches(p("before.patches"), given["image"], 2)
    x = x + p["before.positions.weight"][: x.shape[1]]
    depth, left = int(n["depth"]), []
    for number, layer in enumerate(layers(p, n), 1):
        if number > depth // 2 + 1:
            x = linear(layer("skip"), torch.cat([x, left[depth + 1 - number - 1]], -1))
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, causal=False)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
        left.append(x)
    return linear(p("output.linear"), layer_norm(p("after.norm"), x))
