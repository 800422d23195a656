"""Mamba, in the fifth of eight layers attention without positions; in even layers experts for an MLP."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    convolved,
    embed,
    experts,
    layers,
    linear,
    mlp,
    rms_norm,
    silu,
    softplus,
)


def mamba(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """W_o ((y + d v) silu(W_g x)), y_ic = sum over s of q_is h_ics, h_ics = exp(-rate_cs step_ic) h_(i-1)cs + step_ic
    k_is v_ic: each channel c of v keeps `state` numbers."""
    v = silu(convolved(p("conv"), linear(p("value"), x)))
    step = softplus(linear(p("step"), rms_norm(p("step_norm"), linear(p("low"), v))))
    k, q = (rms_norm(p(f"{part}_norm"), linear(p(part), v)) for part in ("key", "query"))
    rate = torch.exp(p["rate.weight"]).reshape(v.shape[-1], int(n["state"]))
    h = torch.zeros(x.shape[0], *rate.shape, dtype=x.dtype)
    rows = []
    for i in range(x.shape[1]):
        h = torch.exp(-rate * step[:, i, :, None]) * h + (step[:, i] * v[:, i])[..., None] * k[:, i, None]
        rows.append((h * q[:, i, None]).sum(-1) + p["skip.weight"] * v[:, i])
    return linear(p("output"), torch.stack(rows, 1) * silu(linear(p("gate"), x)))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        if number % 8 == 5:
            x = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x), n)
        else:
            x = x + mamba(layer("mamba"), rms_norm(layer("mamba_input_norm"), x), n)
        if number % 2 == 0:
            u = rms_norm(layer("experts_input_norm"), x)
            x = x + experts(layer("experts"), u, int(n["active"]), silu, renormalise=False)
        else:
            x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x))
