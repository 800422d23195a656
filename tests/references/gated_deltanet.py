"""Pre-norm: the gated delta rule, position by position, and a gated MLP."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    convolved,
    delta_rule,
    embed,
    layers,
    linear,
    mlp,
    rms_norm,
    sigmoid,
    silu,
    softplus,
    unit_heads,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + gated_delta(layer("gated_delta"), rms_norm(layer("gated_delta_input_norm"), x), n)
        x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x))


def gated_delta(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """Queries, keys and values from short convolutions; S decays by e^(-e^A softplus(W x + c))."""
    size, heads = int(n["size"]), int(n["heads"])
    q, k, v = (silu(convolved(p(f"{m}.conv"), linear(p(f"{m}.linear"), x))) for m in ("query", "key", "value"))
    step = softplus(linear(p("step"), x) + p["step_bias.weight"])
    decay = -torch.exp(p["log_decay.weight"]) * step
    q = unit_heads(q, size, 1e-6) / size**0.5
    y = delta_rule(q, unit_heads(k, size, 1e-6), v, heads, sigmoid(linear(p("rate"), x)), decay)
    normed = [rms_norm(p("gate_output_rmsnorm"), head) for head in y.chunk(heads, -1)]
    return linear(p("output"), silu(linear(p("gate"), x)) * torch.cat(normed, -1))
