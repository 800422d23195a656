"""x = x + a attention(x); x = x + b mlp(x)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + layer["attention_output_scalar.weight"] * attention(layer("attention"), x, n)
        x = x + layer["mlp_output_scalar.weight"] * mlp(layer("mlp"), x)
    return unembed(p, x)
