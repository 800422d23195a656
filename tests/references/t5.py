"""Pre-norm with RMSNorm; a learned bias of scores by distance for each head; one table of words."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layers, mlp, relu, rms_norm, unembed


def distances(p: Parameters, length: int, heads: int, both: bool) -> list[Tensor]:
    """A bias for each head by bucketed distance: half of the buckets for one step each, the rest by logarithm to 128;
    where both sides are seen, half of all buckets are for what comes later."""
    table = p["weight"]
    bias = torch.zeros(heads, length, length, dtype=table.dtype)
    for i in range(length):
        for j in range(length):
            buckets, first, distance = table.shape[0], 0, i - j
            if both:
                buckets //= 2
                first, distance = buckets * (j > i), abs(distance)
            distance, exact = max(distance, 0), buckets // 2
            if distance >= exact:
                far = math.log(distance / exact) / math.log(128 / exact) * (buckets - exact)
                distance = min(exact + int(far), buckets - 1)
            bias[:, i, j] = table[first + distance]
    return list(bias)


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    heads = int(n["heads"])
    memory, x = embed(p, given["source"]), embed(p, given["tokens"])
    bias = distances(p("encoder.before.relative_bias"), memory.shape[1], heads, True)
    for layer in layers(p, n, "encoder"):
        u = rms_norm(layer("attention_input_norm"), memory)
        memory = memory + attention(layer("attention"), u, n, causal=False, scale=1, bias=bias)
        memory = memory + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), memory), relu)
    memory = rms_norm(p("encoder.after.norm"), memory)
    bias = distances(p("decoder.before.relative_bias"), x.shape[1], heads, False)
    for layer in layers(p, n, "decoder"):
        x = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n, scale=1, bias=bias)
        u = rms_norm(layer("cross_attention_input_norm"), x)
        x = x + attention(layer("cross_attention"), u, n, memory=memory, scale=1)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), relu)
    return unembed(p, rms_norm(p("decoder.after.norm"), x) / n["width"] ** 0.5)
