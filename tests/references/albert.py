"""Post-norm encoder whose layers are one; thin embeddings, made wide by a matrix."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    embed_with_positions,
    encoder_layer,
    filled_in,
    gelu_tanh,
    layer_norm,
    linear,
)


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, given["tokens"]) + p["types.weight"][given["types"]]
    x = linear(p("before.linear"), layer_norm(p("before.linear_input_norm"), x))
    for _ in range(int(n["depth"])):
        x = encoder_layer(p("layers.0"), x, n, activation=gelu_tanh)
    return filled_in(p, x)
