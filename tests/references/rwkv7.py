"""RWKV-7: every branch sees a share of the token before; S is erased and written at places of their own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, layer_norm, layers, linear, relu, sigmoid, unit_heads


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = layer_norm(p("before.norm"), embed(p, tokens))
    first = None
    for layer in layers(p, n):
        y, values = time_mix(layer("time_mix"), layer_norm(layer("time_mix_input_norm"), x), first, int(n["heads"]))
        first = values if first is None else first
        x = x + y
        x = x + channel_mix(layer("channel_mix"), layer_norm(layer("channel_mix_input_norm"), x))
    return linear(p("output.unembed"), layer_norm(p("after.norm"), x))


def shifted(x: Tensor, share: Tensor) -> Tensor:
    """x (1 - share) + what stood before it * share; nothing stood before the first."""
    before = torch.zeros_like(x)
    before[:, 1:] = x[:, :-1]
    return x * (1 - share) + before * share


def time_mix(p: Parameters, x: Tensor, first: Tensor | None, heads: int) -> tuple[Tensor, Tensor]:
    """The branch and its values; `first`: those of the first layer."""
    size = x.shape[-1] // heads
    mixed = {m: shifted(x, p[f"{m}_mix.weight"]) for m in ("receptance", "decay", "key", "value", "rate", "gate")}
    r, k, v = (linear(p(name), mixed[name]) for name in ("receptance", "key", "value"))
    if first is not None:
        v = v + (first - v) * sigmoid(linear(p("first_up"), linear(p("first_down"), mixed["value"])))
    low = linear(p("decay_up"), torch.tanh(linear(p("decay_down"), mixed["decay"])))
    # the authors' w = e^(-e^(-softplus(-low) - 1/2))
    decay = torch.exp(-torch.exp(-torch.log(1 + torch.exp(-low)) - 0.5))
    rate = sigmoid(linear(p("rate_up"), linear(p("rate_down"), mixed["rate"])))
    gate = linear(p("gate_up"), sigmoid(linear(p("gate_down"), mixed["gate"])))
    removal = unit_heads(k * p["look.weight"], size)
    k = k * (1 + (rate - 1) * p["key_rate.weight"])
    read = []
    for h in range(heads):
        own = slice(h * size, (h + 1) * size)
        state = torch.zeros(x.shape[0], size, size, dtype=x.dtype)  # the authors' S: a row for each channel of v
        rows = []
        for i in range(x.shape[1]):
            w, key, value, q, erased, a = (t[:, i, own] for t in (decay, k, v, r, removal, rate))
            kept = state * w[:, None] - (state @ erased[..., None]) @ (a * erased)[:, None]
            state = kept + value[..., None] @ key[:, None]
            rows.append((state @ q[..., None])[..., 0])
        y = torch.stack(rows, 1)
        centered = y - y.mean(-1, keepdim=True)
        normed = centered / ((centered**2).mean(-1, keepdim=True) + 64e-5) ** 0.5
        normed = normed * p["head_scale.weight"][own] + p["head_bias.weight"][own]
        bonus = (r[..., own] * k[..., own] * p["bonus.weight"][own]).sum(-1, keepdim=True)
        read.append(normed + bonus * v[..., own])
    return linear(p("output"), torch.cat(read, -1) * gate), v


def channel_mix(p: Parameters, x: Tensor) -> Tensor:
    """W_down relu(W_up x)^2, of x shifted."""
    return linear(p("down"), relu(linear(p("up"), shifted(x, p["mix.weight"]))) ** 2)
