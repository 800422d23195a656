"""Three layers of the gated delta rule, one of gated attention; a mixture of experts, one of which all share."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    convolved,
    core,
    delta_rule,
    embed,
    experts,
    layers,
    linear,
    mlp,
    rms_norm,
    rotated,
    sigmoid,
    silu,
    softplus,
    unit_heads,
)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        name, branch = ("gated_attention", attention) if number % 4 == 0 else ("gated_delta", gated_delta)
        x = x + branch(layer(name), rms_norm(layer(f"{name}_input_norm"), x), n)
        x = x + mixture(layer("mixture"), rms_norm(layer("mixture_input_norm"), x), n)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x))


def mixture(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """Experts, and an MLP times a gate of its own."""
    shared = sigmoid(linear(p("shared_gate"), x)) * mlp(p("shared"), x, silu)
    return experts(p("experts"), x, int(n["active"]), silu) + shared


def attention(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """The first quarter of each head turned, after a norm by the head; what attends is gated."""
    heads, shared, size = int(n["heads"]), int(n["kv_heads"]), int(n["head_size"])

    def turned(name: str, count: int) -> Tensor:
        made = []
        for head in linear(p(name), x).chunk(count, -1):
            normed, few = rms_norm(p(f"{name}_norm"), head), size // 4
            made += [rotated(normed[..., :few], 10000000), normed[..., few:]]
        return torch.cat(made, -1)

    y = core(turned("query", heads), turned("key", shared), linear(p("value"), x), heads, shared)
    return linear(p("output"), sigmoid(linear(p("gate"), x)) * y)


def gated_delta(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """Fewer heads of queries and keys than of values."""
    size, heads, groups = int(n["state_size"]), int(n["value_heads"]), int(n["key_heads"])
    q, k, v = (silu(convolved(p(f"{m}.conv"), linear(p(f"{m}.linear"), x))) for m in ("query", "key", "value"))
    decay = -torch.exp(p["log_decay.weight"]) * softplus(linear(p("step"), x) + p["step_bias.weight"])
    q, share = unit_heads(q, size, 1e-6) / size**0.5, sigmoid(linear(p("rate"), x))
    y = delta_rule(q, unit_heads(k, size, 1e-6), v, heads, share, decay, groups)
    normed = [rms_norm(p("gate_output_rmsnorm"), head) for head in y.chunk(heads, -1)]
    return linear(p("output"), silu(linear(p("gate"), x)) * torch.cat(normed, -1))
