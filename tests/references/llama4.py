"""Three layers with turned and normed queries and keys over chunks, one without positions whose scores are sharper the
further on it stands; one expert, whose input is multiplied by its score, and one that all positions use."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    embed,
    layers,
    linear,
    mlp,
    rms_norm,
    rotated,
    sigmoid,
    silu,
    unit,
)

EPS = 1e-5


def turned(x: Tensor) -> Tensor:
    """One head, channels 2c and 2c + 1 together, the first of all pairs before the second; then of mean square 1."""
    return unit(rotated(torch.cat([x[..., 0::2], x[..., 1::2]], -1), 500000), EPS)


def attention(p: Parameters, x: Tensor, n: Mapping[str, float], near: bool) -> Tensor:
    """`near`: positions of the same chunk, turned; else all before it, and scores times 1 + 0.1 log(1 + floor((i + 1) /
    chunk))."""
    heads, kv_heads, chunk = int(n["heads"]), int(n["kv_heads"]), int(n["chunk"])
    qs = linear(p("query"), x).chunk(heads, -1)
    ks, vs = linear(p("key"), x).chunk(kv_heads, -1), linear(p("value"), x).chunk(kv_heads, -1)
    made = []
    for h in range(heads):
        q, k, v = qs[h], ks[h * kv_heads // heads], vs[h * kv_heads // heads]
        if near:
            q, k = turned(q), turned(k)
        rows = []
        for i in range(x.shape[1]):
            first = i // chunk * chunk if near else 0
            sharp = 1 if near else 1 + 0.1 * math.log(1 + (i + 1) // chunk)
            exps = torch.exp(sharp * (k[:, first : i + 1] @ q[:, i, :, None])[..., 0] / n["head"] ** 0.5)
            shares = exps / exps.sum(-1, keepdim=True)
            rows.append((shares[..., None] * v[:, first : i + 1]).sum(1))
        made.append(torch.stack(rows, 1))
    return linear(p("output"), torch.cat(made, -1))


def experts(p: Parameters, x: Tensor) -> Tensor:
    """Position by position."""
    rows = []
    for v in x.flatten(0, 1):
        scores = p["router.weight"] @ v
        e = int(scores.argmax())
        inside = sigmoid(scores[e]) * v
        h = silu(p["gate.weight"][e] @ inside) * (p["up.weight"][e] @ inside)
        rows.append(mlp(p("shared"), v, silu) + p["down.weight"][e] @ h)
    return torch.stack(rows).view_as(x)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        near = number % 4 != 0
        name = "near" if near else "attention"
        x = x + attention(layer(name), rms_norm(layer(f"{name}_input_norm"), x, EPS), n, near)
        x = x + experts(layer("experts"), rms_norm(layer("experts_input_norm"), x, EPS))
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x, EPS))
