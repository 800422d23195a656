"""Sandwich with RMSNorm, and a norm on the embedding."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, mlp, rms_norm, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = rms_norm(p("before.norm"), embed_with_positions(p, tokens))
    for layer in layers(p, n):
        a = attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n)
        x = x + rms_norm(layer("attention_output_norm"), a)
        f = mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x))
        x = x + rms_norm(layer("mlp_output_norm"), f)
    return unembed(p, rms_norm(p("after.norm"), x))
