"""LLaMA (eps 1e-5, rotary base 1,000,000) with two of eight experts for an MLP, their weights made to sum to 1."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, experts, layers, linear, rms_norm, silu


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        u = rms_norm(layer("attention_input_norm"), x, eps=1e-5)
        x = x + attention(layer("attention"), u, n, base=1000000)
        u = rms_norm(layer("experts_input_norm"), x, eps=1e-5)
        x = x + experts(layer("experts"), u, int(n["active"]), silu)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x, eps=1e-5))
