"""Attention from latents: each head has a part without position and a turned one, whose key is common to all heads.
After the first layer an MLP that all positions use and 16 times the experts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    core,
    embed,
    experts,
    layers,
    linear,
    mlp,
    rms_norm,
    rotated,
    silu,
)


def turned(x: Tensor) -> Tensor:
    """Channels 2c and 2c + 1 turned together; the first of all pairs come to stand before the second, in queries and
    keys alike, which products do not mind."""
    return rotated(torch.cat([x[..., 0::2], x[..., 1::2]], -1), 10000)


def latent(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """W_o softmax(q k^T / sqrt(head + rotating)) v."""
    heads = int(n["heads"])
    b = rms_norm(p("query_norm"), linear(p("query_down"), x))
    c = rms_norm(p("latent_norm"), linear(p("latent_down"), x))
    common = turned(linear(p("key_rotary"), x))
    plain_q, plain_k = linear(p("query_up"), b).chunk(heads, -1), linear(p("key_up"), c).chunk(heads, -1)
    turned_q = [turned(q) for q in linear(p("query_rotary"), b).chunk(heads, -1)]
    q = torch.cat([torch.cat([plain_q[h], turned_q[h]], -1) for h in range(heads)], -1)
    k = torch.cat([torch.cat([plain_k[h], common], -1) for h in range(heads)], -1)
    return linear(p("output"), core(q, k, linear(p("value_up"), c), heads))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        x = x + latent(layer("latent"), rms_norm(layer("latent_input_norm"), x), n)
        u = rms_norm(layer("mlp_input_norm"), x)
        x = x + mlp(layer("mlp"), u, silu)
        if number > 1:
            x = x + 16 * experts(layer("experts"), u, int(n["active"]), silu, renormalise=False)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x))
