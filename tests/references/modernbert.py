"""Pre-norm encoder with rotary positions; two layers of three see `window` / 2 positions to each side."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, core, embed, gelu, layer_norm, layers, linear, mlp, rotary, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    heads, places = int(n["heads"]), torch.arange(tokens.shape[1])
    far = (places[:, None] - places).abs() > n["window"] // 2
    x = layer_norm(p("before.norm"), embed(p, tokens))
    for number, layer in enumerate(layers(p, n), 1):
        u, a = x if number == 1 else layer_norm(layer("attention_input_norm"), x), layer("attention")
        base = 160000 if number % 3 == 1 else 10000
        q, k = (rotary(linear(a(name), u), heads, base) for name in ("query", "key"))
        bias = torch.zeros(far.shape, dtype=x.dtype)
        if number % 3 != 1:
            bias[far] = -torch.inf
        y = core(q, k, linear(a("value"), u), heads, causal=False, bias=[bias] * heads)
        x = x + linear(a("output"), y)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), gelu)
    h = gelu(linear(p("output.linear"), layer_norm(p("after.norm"), x)))
    return unembed(p, layer_norm(p("output.words_input_norm"), h)) + p["output.vector.weight"]
