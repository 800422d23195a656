"""Pre-norm; branches read the second half of the channels from one position back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layer_norm, layers, mlp, unembed


def shifted(x: Tensor) -> Tensor:
    """The second half of the channels from the position before, 0 at the first."""
    half = x.shape[-1] // 2
    late = torch.cat([torch.zeros_like(x[:, :1, half:]), x[:, :-1, half:]], 1)
    return torch.cat([x[..., :half], late], -1)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + attention(layer("attention"), shifted(layer_norm(layer("shifted_input_norm"), x)), n)
        x = x + mlp(layer("mlp"), shifted(layer_norm(layer("shifted_2_input_norm"), x)))
    return unembed(p, layer_norm(p("after.norm"), x))
