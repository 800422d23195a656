"""Two pre-norm encoders, of an image's squares and of a sentence; a position of each, normed, is compared."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, linear, mlp, patches, sigmoid


def quick(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x)."""
    return x * sigmoid(1.702 * x)


def run(p: Parameters, x: Tensor, n: Mapping[str, float], stack: str, causal: bool) -> Tensor:
    """The layers of a stack and the norm after them."""
    for layer in layers(p, n, stack):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n, causal=causal)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), quick)
    return layer_norm(p(f"{stack}.after.norm"), x)


def unit_length(x: Tensor) -> Tensor:
    """x / |x|."""
    return x / (x * x).sum(-1, keepdim=True) ** 0.5


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> dict[str, Tensor]:
    """See plain.py; both vectors by name."""
    squares = patches(p("image_side.before.patches"), given["image"], 32)
    x = torch.cat([p["image_side.before.learned.weight"].expand(squares.shape[0], 1, -1), squares], 1)
    x = x + p["image_side.before.positions.weight"][: x.shape[1]]
    image_numbers = {**n, "heads": 3 * n["heads"] // 2}
    image = run(p, layer_norm(p("image_side.before.norm"), x), image_numbers, "image_side", False)
    x = embed(p, given["tokens"]) + p["text_side.before.positions.weight"][: given["tokens"].shape[1]]
    text = run(p, x, n, "text_side", True)
    return {
        "image_vector": torch.exp(p["output.scalar.weight"]) * unit_length(linear(p("image_out"), image[:, :1])),
        "text_vector": unit_length(linear(p("text_out"), text[:, -1:])),
    }
