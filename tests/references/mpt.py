"""Pre-norm without biases; scores fall with the distance."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.alibi import slopes
from tests.references.plain import Parameters, attention, embed, layers, mlp, unembed


def norm(p: Parameters, x: Tensor) -> Tensor:
    """LayerNorm without a bias."""
    x = x - x.mean(-1, keepdim=True)
    return p["weight"] * x / ((x * x).mean(-1, keepdim=True) + 1e-5) ** 0.5


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, heads = embed(p, tokens), int(n["heads"])
    bias = slopes(tokens.shape[1], [2 ** (-8 * (h + 1) / heads) for h in range(heads)])
    for layer in layers(p, n):
        x = x + attention(layer("attention"), norm(layer("attention_input_norm"), x), n, bias=bias)
        x = x + mlp(layer("mlp"), norm(layer("mlp_input_norm"), x))
    return unembed(p, norm(p("after.norm"), x))
