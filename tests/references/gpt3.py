"""Pre-norm; even layers see a window."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    gelu_tanh,
    layer_norm,
    layers,
    mlp,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        window = 0 if number % 2 else int(n["window"])
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, window=window)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), gelu_tanh)
    return unembed(p, layer_norm(p("after.norm"), x))
