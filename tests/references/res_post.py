"""x = x + norm(attention(x)); x = x + norm(mlp(x)), RMSNorm."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, mlp, rms_norm, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + rms_norm(layer("attention_output_norm"), attention(layer("attention"), x, n))
        x = x + rms_norm(layer("mlp_output_norm"), mlp(layer("mlp"), x))
    return unembed(p, rms_norm(p("after.norm"), x))
