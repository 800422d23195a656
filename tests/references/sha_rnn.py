"""LSTMs without a skip, each with a small MLP; one layer attends with one head, by vectors instead of matrices."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, core, embed, layer_norm, layers, linear, lstm, sigmoid, unembed


def norm(p: Parameters, x: Tensor) -> Tensor:
    """LayerNorm with the code's epsilon."""
    return layer_norm(p, x, 1e-12)


def boom(p: Parameters, x: Tensor) -> Tensor:
    """Up to four widths, u sigmoid(1.702 u), and the four summed."""
    u = linear(p("up"), x)
    return sum((u * sigmoid(1.702 * u)).chunk(4, -1), torch.zeros_like(x))


def single(p: Parameters, x: Tensor, m: Tensor) -> Tensor:
    """One head of normed queries; keys and values are m times a vector."""
    q = sigmoid(p["of_queries.weight"]) * norm(p("query_output_norm"), linear(p("query"), x))
    return core(q, sigmoid(p["of_keys.weight"]) * m, p["of_values.weight"] * m, 1)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        h = lstm(layer("lstm"), norm(layer("lstm_input_norm"), x))
        u = norm(layer("lstm_output_norm"), h)
        if number == int(n["depth"]) - 1:
            x = u + single(layer("single"), u, norm(layer("single_input_norm"), h))
            u, h = norm(layer("single_sum_norm"), x), x
        x = u + boom(layer("boom"), norm(layer("boom_input_norm"), h))
    return unembed(p, x)
