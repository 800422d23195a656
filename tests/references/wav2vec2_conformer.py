"""Convolutions over a waveform without padding, each with a norm, then Conformer layers whose scores have a part for
the distance."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.conformer import batch_norm
from tests.references.plain import Parameters, convolved, core, gelu, layer_norm, layers, linear, mlp, sigmoid, silu

STRIDES = {"one": 5, "two": 2, "three": 2, "four": 2, "five": 2, "six": 2, "seven": 2}


def wave(number: float, width: int) -> Tensor:
    """Sines and cosines of a number in turn."""
    angles = [number / 10000 ** (2 * c / width) for c in range(width // 2)]
    return torch.tensor([f(a) for a in angles for f in (math.sin, math.cos)], dtype=torch.float64)


def attend(p: Parameters, x: Tensor, heads: int) -> Tensor:
    """softmax(((q_i + u) k_j + (q_i + v) W wave(i - j)) / sqrt(size)) v_j: u is `what`, v is `place`."""
    q, k, v = (linear(p(name), x) for name in ("query", "key", "value"))
    length, size = x.shape[1], x.shape[2] // heads
    rows = [[wave(i - j, x.shape[2]) for j in range(length)] for i in range(length)]
    distances = torch.stack([torch.stack(row) for row in rows]) @ p["place_key.weight"].T
    placed = (q + p["place.weight"]).chunk(heads, -1)
    parts = zip(placed, distances.chunk(heads, -1), strict=True)
    bias = [(one[:, :, None] * of_pair).sum(-1) / math.sqrt(size) for one, of_pair in parts]
    return linear(p("output"), core(q + p["what.weight"], k, v, heads, causal=False, bias=bias))


def convolution(p: Parameters, x: Tensor) -> Tensor:
    """Through a gate, 31 positions around, a batch norm, SiLU, a matrix."""
    g = linear(p("value"), x) * sigmoid(linear(p("gate"), x))
    return linear(p("output"), silu(batch_norm(p("output_input_batchnorm"), convolved(p("conv"), g, 15))))


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = given["audio"][..., None]
    for name, stride in STRIDES.items():
        length = p[f"{name}.conv.weight"].shape[-1]
        x = convolved(p(f"{name}.conv"), x)[:, length - 1 :: stride]
        x = gelu(layer_norm(p(f"{name}.conv_output_norm"), x))
    x = linear(p("projection"), layer_norm(p("before.projection_input_norm"), x))
    for layer in layers(p, n):
        x = x + mlp(layer("first"), layer_norm(layer("first_input_norm"), x), silu) / 2
        x = x + attend(layer("attend"), layer_norm(layer("attend_input_norm"), x), int(n["heads"]))
        x = x + convolution(layer("convolution"), layer_norm(layer("convolution_input_norm"), x))
        x = x + mlp(layer("last"), layer_norm(layer("last_input_norm"), x), silu) / 2
        x = layer_norm(layer("last_sum_norm"), x)
    return linear(p("output.unembed"), layer_norm(p("after.norm"), x))
