"""Pre-norm with RMSNorm; norms of queries and keys by the head, before rotary positions."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layers, mlp, rms_norm, silu, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n, 1000000)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
    return unembed(p, rms_norm(p("after.norm"), x))
