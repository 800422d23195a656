"""Copies of one stream; each sublayer reads a weighted sum of them, and is added to their mixtures, with weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    hyper_read,
    hyper_write,
    layer_norm,
    layers,
    mlp,
    unembed,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    streams = [embed_with_positions(p, tokens)] * int(n["streams"])
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), hyper_read(layer("read"), streams))
        streams = hyper_write(layer("attention_output_write"), streams, attention(layer("attention"), u, n))
        u = layer_norm(layer("mlp_input_norm"), hyper_read(layer("read_2"), streams))
        streams = hyper_write(layer("mlp_output_write"), streams, mlp(layer("mlp"), u))
    return unembed(p, layer_norm(p("after.norm"), sum(streams[1:], streams[0])))
