"""Norms of what branches give, one over all heads of queries and of keys; rotary positions, a gated SiLU MLP."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layers, linear, mlp, rms_norm, silu


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + rms_norm(layer("attention_output_norm"), attention(layer("attention"), x, n, base=500000))
        x = x + rms_norm(layer("mlp_output_norm"), mlp(layer("mlp"), x, silu))
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x))
