"""Norms around branches, the embedding times the root of the width; every sixth layer sees all, the others a window."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, gelu_tanh, layers, mlp, rms_norm, unembed


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = n["width"] ** 0.5 * embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        base, window = (1000000, 0) if number % 6 == 0 else (10000, int(n["window"]))
        a = attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n, base, window)
        x = x + rms_norm(layer("attention_output_norm"), a)
        f = mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), gelu_tanh)
        x = x + rms_norm(layer("mlp_output_norm"), f)
    return unembed(p, rms_norm(p("after.norm"), x))
