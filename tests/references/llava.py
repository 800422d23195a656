"""A pre-norm encoder of an image's squares, whose class token is left out; a projection of two layers; and a decoder
like LLaMA's that has the squares in the places of one id."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed,
    gelu,
    layer_norm,
    layers,
    linear,
    mlp,
    patches,
    rms_norm,
    silu,
)


def quick_gelu(x: Tensor) -> Tensor:
    """x / (1 + exp(-1.702 x))."""
    return x / (1 + torch.exp(-1.702 * x))


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    squares = patches(p("image_side.before.patches"), given["image"], int(n["patch"]))
    token = p["image_side.before.learned.weight"][None].expand(len(squares), -1, -1)
    memory = torch.cat([token, squares], 1)
    memory = memory + p["image_side.before.positions.weight"][: memory.shape[1]]
    memory = layer_norm(p("image_side.before.layernorm"), memory)
    halved = {**n, "heads": max(1, int(n["heads"]) // 2)}
    for layer in layers(p, n, "image_side"):
        u = layer_norm(layer("attention_input_layernorm"), memory)
        memory = memory + attention(layer("attention"), u, halved, causal=False)
        memory = memory + mlp(layer("mlp"), layer_norm(layer("mlp_input_layernorm"), memory), quick_gelu)
    seen = linear(p("second"), gelu(linear(p("first"), memory[:, 1:])))
    x = embed(p, given["tokens"]).clone()
    for row, ids in enumerate(given["tokens"].tolist()):
        places = [place for place, token in enumerate(ids) if token == int(n["vocab"]) - 1]
        for number, place in enumerate(places):
            x[row, place] = seen[row, number]
    for layer in layers(p, n, "decoder"):
        u = rms_norm(layer("attention_input_norm"), x, eps=1e-5)
        x = x + attention(layer("attention"), u, n, base=10000)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x, eps=1e-5), silu)
    return linear(p("output.unembed"), rms_norm(p("decoder.after.norm"), x, eps=1e-5))
