"""Copies of one stream, read and written with positive weights, and mixed by Sinkhorn's doubly stochastic matrix."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    hyper_logits,
    layer_norm,
    layers,
    mixed,
    mlp,
    positive_read,
    unembed,
)


def written(p: Parameters, streams: list[Tensor], y: Tensor) -> list[Tensor]:
    """20 times the columns, then the rows of exp(...) are divided by their sums."""
    n = len(streams)
    made, gains = hyper_logits(p, streams)
    mixing = torch.exp(made).reshape(*made.shape[:-1], n, n)
    for _ in range(20):
        mixing = mixing / mixing.sum(-2, keepdim=True)
        mixing = mixing / mixing.sum(-1, keepdim=True)
    return mixed(mixing, gains, streams, y)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    streams = [embed_with_positions(p, tokens)] * int(n["streams"])
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), positive_read(layer("read"), streams))
        streams = written(layer("attention_output_write"), streams, attention(layer("attention"), u, n))
        u = layer_norm(layer("mlp_input_norm"), positive_read(layer("read_2"), streams))
        streams = written(layer("mlp_output_write"), streams, mlp(layer("mlp"), u))
    return unembed(p, layer_norm(p("after.norm"), sum(streams[1:], streams[0])))
