"""Pre-norm with RMSNorm (eps 1e-5), rotary positions of base 500,000, a gated SiLU MLP, an output of its own."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layers, linear, mlp, rms_norm, silu


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        u = rms_norm(layer("attention_input_norm"), x, eps=1e-5)
        x = x + attention(layer("attention"), u, n, base=500000)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x, eps=1e-5), silu)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x, eps=1e-5))
