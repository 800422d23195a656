"""Norms of queries, keys, values; post-norm after attention, into the MLP and past it; layer 1 in pre-norm."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layers, mlp, rms_norm, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        if number == 1:
            y = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n, base=10000)
            x = y + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), y))
        else:
            y = rms_norm(layer("attention_sum_norm"), x + attention(layer("attention"), x, n, base=10000))
            x = y + mlp(layer("mlp"), y)
    return unembed(p, rms_norm(p("after.norm"), x))
