"""Each layer adds an LSTM of the stream."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, layers, sigmoid, unembed


def lstm(p: Parameters, x: Tensor) -> Tensor:
    """i, f, o = sigmoid and g = tanh of W x_i + U h + b; c = f c + i g; h = o tanh(c), one position after another."""
    w, u, b = p["input.weight"], p["state.weight"], p["bias"]
    h = c = torch.zeros(x.shape[0], u.shape[1], dtype=x.dtype)
    rows = []
    for at in range(x.shape[1]):
        i, f, g, o = (x[:, at] @ w.T + h @ u.T + b).split(u.shape[1], -1)
        c = sigmoid(f) * c + sigmoid(i) * torch.tanh(g)
        h = sigmoid(o) * torch.tanh(c)
        rows.append(h)
    return torch.stack(rows, 1)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + lstm(layer("lstm"), x)
    return unembed(p, x)
