"""Norms around branches; scores and logits through cap * tanh(x / cap); odd layers see a window."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, gelu_tanh, layers, linear, mlp, rms_norm, rotary, unembed


def capped(p: Parameters, x: Tensor, heads: int, window: int) -> Tensor:
    """Attention whose scores are 50 tanh(scores / 50), one head of keys for several of queries."""
    q, k, v = linear(p("query"), x), linear(p("key"), x), linear(p("value"), x)
    size = q.shape[-1] // heads
    shared = heads // (k.shape[-1] // size)
    q, k = rotary(q, heads), rotary(k, heads // shared)
    length = x.shape[1]
    seen = torch.tensor([[j <= i and (not window or j > i - window) for j in range(length)] for i in range(length)])
    made = []
    for h in range(heads):
        keys, values = (y.split(size, -1)[h // shared] for y in (k, v))
        scores = q.split(size, -1)[h] @ keys.transpose(-1, -2) / size**0.5
        weights = torch.exp(50 * torch.tanh(scores / 50)) * seen
        made.append(weights / weights.sum(-1, keepdim=True) @ values)
    return linear(p("output"), torch.cat(made, -1))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = n["width"] ** 0.5 * embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        window = int(n["window"]) if number % 2 else 0
        a = capped(layer("attention"), rms_norm(layer("attention_input_norm"), x), int(n["heads"]), window)
        x = x + rms_norm(layer("attention_output_norm"), a)
        f = mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), gelu_tanh)
        x = x + rms_norm(layer("mlp_output_norm"), f)
    return 30 * torch.tanh(unembed(p, rms_norm(p("after.norm"), x)) / 30)
