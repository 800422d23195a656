"""y = norm(x + attention(x)); x = norm(relu(y + W y + b)), RMSNorm."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, linear, relu, rms_norm, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        y = rms_norm(layer("attention_sum_norm"), x + attention(layer("attention"), x, n))
        x = rms_norm(layer("linear_sum_norm"), relu(y + linear(layer("linear"), y)))
    return unembed(p, x)
