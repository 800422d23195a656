"""h = unit(h + |a| (unit(attention(h)) - h)), and so the MLP; queries, keys, MLP and logits with learned scales.

The scales are kept as the published code keeps them (NVIDIA/ngpt, model.py): the value is `init_value / init_scaling`
times the parameter, with an `init_scaling` of 1 / sqrt(width).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, core, layers, linear, rotary, silu


def unit(x: Tensor) -> Tensor:
    """x / |x|."""
    return x / (x * x).sum(-1, keepdim=True) ** 0.5


def by_heads(x: Tensor, heads: int) -> Tensor:
    """Each head's channels of length 1."""
    return torch.cat([unit(head) for head in x.chunk(heads, -1)], -1)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    width, heads = int(n["width"]), int(n["heads"])
    init_scaling = width**-0.5
    x = unit(p["before.embed.weight"][tokens])
    for layer in layers(p, n):
        at = layer("attention")
        scale = at["s.weight"] * (1.0 / init_scaling)
        q = scale * by_heads(rotary(linear(at("query"), x), heads), heads)
        k = scale * by_heads(rotary(linear(at("key"), x), heads), heads)
        # `core` divides by the root of a head's size, and the factor here is that root
        made = linear(at("output"), core(q * (width / heads), k, linear(at("value"), x), heads))
        x = unit(x + abs(layer["rate_a.weight"] * (0.05 / init_scaling)) * (unit(made) - x))
        at = layer("mlp")
        u = at["su.weight"] * linear(at("up"), x)
        v = at["sv.weight"] * linear(at("gate"), x) * width**0.5
        made = linear(at("down"), u * silu(v))
        x = unit(x + abs(layer["rate_m.weight"] * (0.05 / init_scaling)) * (unit(made) - x))
    return p["output.unembed_output_vector.weight"] * (1.0 / init_scaling) * linear(p("output.unembed"), x)
