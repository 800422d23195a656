"""Pre-norm with w tanh(a x) + b for norms."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layers, mlp, unembed


def squash(p: Parameters, x: Tensor) -> Tensor:
    """w tanh(a x) + b."""
    return p["weight"] * torch.tanh(p["alpha"] * x) + p["bias"]


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), squash(layer("attention_input_norm"), x), n)
        x = x + mlp(layer("mlp"), squash(layer("mlp_input_norm"), x))
    return unembed(p, squash(p("after.norm"), x))
