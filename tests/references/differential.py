"""The weights of one head less a learned share of another's, over values of both."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, core, embed, layers, linear, mlp, rms_norm, rotary, silu, unit


def differential(p: Parameters, x: Tensor, n: Mapping[str, float], start: float) -> Tensor:
    """Of each pair of heads h and h + heads / 2: (1 - start) unit((A_1 - a A_2) [v_1, v_2])."""
    heads, half = int(n["heads"]), int(n["heads"]) // 2
    q, k = (rotary(linear(p(name), x), heads).chunk(heads, -1) for name in ("query", "key"))
    v = linear(p("value"), x).chunk(heads, -1)
    share = math.exp(p["q1.weight"] @ p["k1.weight"]) - math.exp(p["q2.weight"] @ p["k2.weight"]) + start
    made = []
    for h in range(half):
        value = torch.cat([v[h], v[h + half]], -1)
        one, other = (core(q[at], k[at], value, 1) for at in (h, h + half))
        made.append((1 - start) * unit(one - share * other, 1e-5))
    return linear(p("output"), torch.cat(made, -1))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n)):
        start = 0.8 - 0.6 * math.exp(-0.3 * number)
        x = x + differential(layer("differential"), rms_norm(layer("differential_input_norm"), x, 1e-5), n, start)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x, 1e-5), silu)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x, 1e-5))
