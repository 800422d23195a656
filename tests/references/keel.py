"""x = norm(2 L x + sublayer(norm(x))), RMSNorm."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, mlp, rms_norm, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        a = attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n)
        x = rms_norm(layer("attention_sum_norm"), 2 * n["depth"] * x + a)
        f = mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x))
        x = rms_norm(layer("mlp_sum_norm"), 2 * n["depth"] * x + f)
    return unembed(p, x)
