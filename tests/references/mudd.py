"""Queries, keys, values and skip each read a sum over all layers' results, with weights made of the newest."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, core, embed, gelu, layer_norm, layers, linear, mlp, rotary, unembed, unit


def mix(p: Parameters, entries: list[Tensor]) -> Tensor:
    """Weights w + W_2 gelu(W_1 e / rms(e)), e the last entry."""
    weights = p["weight"] + gelu(unit(entries[-1]) @ p["first.weight"].T) @ p["second.weight"].T
    return sum((weights[..., k, None] * e for k, e in enumerate(entries)), torch.zeros_like(entries[0]))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    made, heads = [embed(p, tokens)], int(n["heads"])
    for number, layer in enumerate(layers(p, n)):
        ways = [made[0]] * 4 if number == 0 else [mix(layer(name), made) for name in "qkvr"]
        norms = ("attention_input_norm", "attention_input_norm_2", "attention_input_norm_3")
        q, k, v = (layer_norm(layer(name), way) for name, way in zip(norms, ways[:3], strict=True))
        a = layer("attention")
        q, k = (rotary(linear(a(name), x), heads) for name, x in (("query", q), ("key", k)))
        y = ways[3] + linear(a("output"), core(q, k, linear(a("value"), v), heads))
        made.append(y + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), y)))
    return unembed(p, layer_norm(p("after.norm"), mix(p("after.mix"), made)))
