"""Two halves of an embedding; each layer predicts both, computes one, in turn, and corrects both by what changed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed_with_positions, layer_norm, layers, mlp, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    halves = list(embed_with_positions(p, tokens).chunk(2, -1))
    for number, layer in enumerate(layers(p, n)):
        predicted = [sum(layer[f"{i}_{j}.weight"] * halves["ab".index(j)] for j in "ab") for i in "ab"]
        turn = number % 2
        x = predicted[turn]
        y = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        y = y + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), y))
        halves = [half + layer[f"gain_{i}.weight"] * (y - x) for i, half in zip("ab", predicted, strict=True)]
    return unembed(p, layer_norm(p("after.norm"), torch.cat(halves, -1)))
