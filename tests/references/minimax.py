"""Seven of eight layers without a softmax, each head decaying at its own rate; norms on the residual path; experts."""

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
    rms_norm,
    sigmoid,
    silu,
    turned,
)


def lightning(p: Parameters, x: Tensor, n: Mapping[str, float], number: int) -> Tensor:
    """W_o (sigmoid(W_g x) norm(y)), y_i = sum over j <= i of exp(-rate (i - j)) (q_i . k_j) v_j, head by head."""
    heads = int(n["heads"])
    q, k, v = (silu(linear(p(name), x)).chunk(heads, -1) for name in ("query", "key", "value"))
    made = []
    for h in range(heads):
        rate = 2 ** (-8 * (h + 1) / heads) * (1 - (number - 1) / (n["depth"] - 1 + 1e-5) + 1e-5)
        y = torch.zeros_like(v[h])
        for i in range(x.shape[1]):
            for j in range(i + 1):
                weight = (q[h][:, i] * k[h][:, j]).sum(-1, keepdim=True)
                y[:, i] += torch.exp(torch.tensor(-rate * (i - j), dtype=x.dtype)) * weight * v[h][:, j]
        made.append(y)
    return linear(p("output"), sigmoid(linear(p("gate"), x)) * rms_norm(p("norm"), torch.cat(made, -1)))


def softmax(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """Attention, a part of each head turned with base 10,000,000."""
    heads, kv_heads = int(n["heads"]), int(n["kv_heads"])
    q = turned(linear(p("query"), x), heads, n["turned"], base=10000000)
    k = turned(linear(p("key"), x), kv_heads, n["turned"], base=10000000)
    return linear(p("output"), core(q, k, linear(p("value"), x), heads, kv_heads))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        x = rms_norm(layer("norm"), x, 1e-5)
        if number % 8:
            y, name = lightning(layer("lightning"), x, n, number), "lightning"
        else:
            y, name = softmax(layer("attention"), x, n), "attention"
        x = rms_norm(layer(f"{name}_sum_norm"), n["alpha"] * x + y, 1e-5)
        x = n["alpha"] * x + experts(layer("mixture"), x, int(n["active"]), silu)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x, 1e-5))
