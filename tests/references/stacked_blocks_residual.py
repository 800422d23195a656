"""x = x + attention(x); x = x + mlp(x), with ReLU; no norm anywhere."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, mlp, relu, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), x, n)
        x = x + mlp(layer("mlp"), x, relu)
    return unembed(p, x)
