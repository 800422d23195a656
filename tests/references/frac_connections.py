"""One stream in four parts: each part that a sublayer reads, and each that it is added to, is a mixture of all."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed_with_positions,
    hyper_write,
    layer_norm,
    layers,
    mlp,
    unembed,
    unit,
)

PARTS = 4


def read(p: Parameters, x: Tensor) -> Tensor:
    """Part t is the sum over s of A_st x_s, A_st = w_st + g tanh(U x_s / rms(x_s))_t."""
    made = [torch.zeros_like(part) for part in x.chunk(PARTS, -1)]
    for s, part in enumerate(x.chunk(PARTS, -1)):
        a = p["static"][s] + p["scale"] * torch.tanh(unit(part) @ p["weight"].T)
        for t in range(PARTS):
            made[t] = made[t] + a[..., t : t + 1] * part
    return torch.cat(made, -1)


def write(p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """As Hyper-Connections, part t of y to part t."""
    return torch.cat(hyper_write(p, list(x.chunk(PARTS, -1)), list(y.chunk(PARTS, -1))), -1)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        u = layer_norm(layer("attention_input_norm"), read(layer("read"), x))
        x = write(layer("attention_output_write"), x, attention(layer("attention"), u, n))
        u = layer_norm(layer("mlp_input_norm"), read(layer("read_2"), x))
        x = write(layer("mlp_output_write"), x, mlp(layer("mlp"), u))
    return unembed(p, layer_norm(p("after.norm"), x))
