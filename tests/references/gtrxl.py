"""A gated recurrent unit takes the place of each sum."""

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
    relu,
    sigmoid,
    unembed,
)


def gru(p: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """r, z = sigmoid(W_r y + U_r x), sigmoid(W_z y + U_z x - b); h = tanh(W_h y + U_h (r x)); (1 - z) x + z h."""
    w_r, w_z, w_h = p["input.weight"].split(x.shape[-1])
    u_r, u_z = p["state.weight"].split(x.shape[-1])
    r = sigmoid(y @ w_r.T + x @ u_r.T)
    z = sigmoid(y @ w_z.T + x @ u_z.T - p["bias"])
    h = torch.tanh(y @ w_h.T + (r * x) @ p["candidate.weight"].T)
    return (1 - z) * x + z * h


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        a = attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        x = gru(layer("attention_output_gru_gate"), x, relu(a))
        f = mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
        x = gru(layer("mlp_output_gru_gate"), x, relu(f))
    return unembed(p, layer_norm(p("after.norm"), x))
