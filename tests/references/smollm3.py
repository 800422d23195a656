"""LLaMA's layer; every fourth has no rotary positions."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layers, mlp, rms_norm, silu, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        base = 0 if number % 4 == 0 else 5000000
        x = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n, base)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
    return unembed(p, rms_norm(p("after.norm"), x))
