"""Post-norm encoder whose layers are one; thin embeddings, made wide by a matrix."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    embed_with_positions,
    encoder_layer,
    gelu_tanh,
    layer_norm,
    linear,
    unembed,
)

EPS = 1e-12


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, given["tokens"]) + p["types.weight"][given["types"]]
    x = linear(p("before.linear"), layer_norm(p("before.linear_input_norm"), x, EPS))
    for _ in range(int(n["depth"])):
        x = encoder_layer(p("layers.0"), x, n, EPS, gelu_tanh)
    h = layer_norm(p("output.words_input_norm"), gelu_tanh(linear(p("output.linear"), x)), EPS)
    return unembed(p, h) + p["output.vector.weight"]
