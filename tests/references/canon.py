"""Pre-norm, rotary, gated; a convolution over four positions is added at four places of a layer."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    convolved,
    core,
    embed,
    layers,
    linear,
    rms_norm,
    rotary,
    silu,
    unembed,
)


def canon(p: Parameters, x: Tensor) -> Tensor:
    """x, and what stands at it and in the three positions before it."""
    return x + convolved(p("conv"), x)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    heads = int(n["heads"])
    x = embed(p, tokens)
    for layer in layers(p, n):
        u, a, m = canon(layer("a"), rms_norm(layer("a_input_norm"), x, 1e-5)), layer("attention"), layer("mlp")
        q, k, v = (canon(a(f"{name}_canon"), linear(a(name), u)) for name in ("query", "key", "value"))
        x = x + linear(a("output"), core(rotary(q, heads), rotary(k, heads), v, heads))
        u = canon(layer("c"), rms_norm(layer("c_input_norm"), x, 1e-5))
        gate, up = (canon(m(f"{name}_canon"), linear(m(name), u)) for name in ("gate", "up"))
        x = x + linear(m("down"), silu(gate) * up)
    return unembed(p, rms_norm(p("after.norm"), x, 1e-5))
