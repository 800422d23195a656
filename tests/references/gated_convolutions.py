"""Each layer adds a convolution times the sigmoid of another."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, convolved, embed, layers, sigmoid, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + convolved(layer("value"), x) * sigmoid(convolved(layer("gate"), x))
    return unembed(p, x)
