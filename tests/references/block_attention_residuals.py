"""Sublayers attend over the embedding, the sums of the blocks before theirs, and what theirs has added up so far."""

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
    blocks, inside = [embed_with_positions(p, tokens)], []
    for layer in layers(p, n):
        so_far = [*blocks, sum(inside[1:], inside[0])] if inside else blocks
        u = layer_norm(layer("attention_input_norm"), attended(layer["attend.query"], so_far))
        second = "attention_sum_attend" if inside else "attention_output_attend"
        inside.append(attention(layer("attention"), u, n))
        so_far = [*blocks, sum(inside[1:], inside[0])]
        u = layer_norm(layer("mlp_input_norm"), attended(layer[f"{second}.query"], so_far))
        inside.append(mlp(layer("mlp"), u))
        if len(inside) == 2 * n["block"]:
            blocks, inside = [*blocks, sum(inside[1:], inside[0])], []
    return unembed(p, layer_norm(p("after.norm"), attended(p["after.attend.query"], blocks)))
