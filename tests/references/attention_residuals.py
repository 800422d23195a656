"""Each sublayer reads a softmax-weighted mean of the embedding and of the results of all sublayers before it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    layer_norm,
    layers,
    mlp,
    unembed,
    unit,
)


def attended(query: Tensor, entries: list[Tensor]) -> Tensor:
    """The sum of a_n e_n, a the softmax over n of query . e_n / rms(e_n)."""
    weights = torch.exp(torch.stack([(query * unit(e)).sum(-1) for e in entries]))
    weights = weights / weights.sum(0)
    return sum((w[..., None] * e for w, e in zip(weights, entries, strict=True)), torch.zeros_like(entries[0]))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    made = [embed_with_positions(p, tokens)]
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), attended(layer["attend.query"], made))
        made.append(attention(layer("attention"), u, n))
        u = layer_norm(layer("mlp_input_norm"), attended(layer["attention_output_attend.query"], made))
        made.append(mlp(layer("mlp"), u))
    return unembed(p, layer_norm(p("after.norm"), attended(p["after.attend.query"], made)))
