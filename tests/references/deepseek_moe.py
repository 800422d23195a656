"""A LLaMA; after the first layer experts for an MLP: shares of the softmax over all, and two that all positions use."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, experts, layers, linear, mlp, rms_norm, silu


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        x = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n, base=10000)
        if number == 1:
            x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
        else:
            u = rms_norm(layer("experts_input_norm"), x)
            x = x + experts(layer("experts"), u, int(n["active"]), silu, renormalise=False, shared=2)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x))
