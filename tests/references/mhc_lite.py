"""Copies of one stream, read and written with positive weights, and mixed by a mean of permutations."""

from __future__ import annotations

import itertools
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
    """A softmax over all permutations, the identity first, in the order of the numbers that they make."""
    n = len(streams)
    orders = list(itertools.permutations(range(n)))
    made, gains = hyper_logits(p, streams)
    weights = torch.exp(made) / torch.exp(made).sum(-1, keepdim=True)
    mixing = torch.zeros(*made.shape[:-1], n, n, dtype=made.dtype)
    for k, order in enumerate(orders):
        for t, s in enumerate(order):
            mixing[..., t, s] += weights[..., k]
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
