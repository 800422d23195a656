"""Pre-norm, each norm divided by the root of the layer's number."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    layers,
    mlp,
    rms_norm,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        x = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x) / number**0.5, n)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x) / number**0.5)
    return unembed(p, rms_norm(p("after.norm"), x))
