"""Two layers of three with a gated recurrence, the third with attention over a window and one head of keys."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    convolved,
    core,
    embed,
    gelu_tanh,
    layers,
    linear,
    mlp,
    rms_norm,
    sigmoid,
    softplus,
    turned,
    unembed,
)


def by_heads(p: Parameters, x: Tensor, heads: int) -> Tensor:
    """Each head's channels by a matrix of its own, plus b."""
    matrices = p["weight"][..., 0].chunk(heads)
    return torch.cat([part @ w.T for part, w in zip(x.chunk(heads, -1), matrices, strict=True)], -1) + p["bias"]


def recurrence(p: Parameters, x: Tensor, heads: int) -> Tensor:
    """W_o (h gelu(W_g x)), h_i = a_i h_(i-1) + sqrt(1 - a_i^2) b_i u_i with gates a and b made of u; at the first
    position no root is taken."""
    u = convolved(p("local"), linear(p("input"), x))
    a = torch.exp(-8 * softplus(p["rate.weight"]) * sigmoid(by_heads(p("recurrence_gate"), u, heads)))
    gained = sigmoid(by_heads(p("input_gate"), u, heads)) * u
    rows = [gained[:, 0]]
    for i in range(1, x.shape[1]):
        rows.append(a[:, i] * rows[-1] + (1 - a[:, i] ** 2) ** 0.5 * gained[:, i])
    return linear(p("output"), torch.stack(rows, 1) * gelu_tanh(linear(p("gate"), x)))


def local(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """Attention with one head of keys, half of each head turned."""
    heads = int(n["heads"])
    q, k = turned(linear(p("query"), x), heads, 0.5), turned(linear(p("key"), x), 1, 0.5)
    return linear(p("output"), core(q, k, linear(p("value"), x), heads, 1, window=int(n["window"])))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = n["width"] ** 0.5 * embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        if number % 3:
            x = x + recurrence(layer("recurrence"), rms_norm(layer("recurrence_input_norm"), x), int(n["heads"]))
        else:
            x = x + local(layer("local"), rms_norm(layer("local_input_norm"), x), n)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), gelu_tanh)
    return 30 * torch.tanh(unembed(p, rms_norm(p("after.norm"), x)) / 30)
