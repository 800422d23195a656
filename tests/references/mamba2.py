"""Heads that each keep a matrix, which decays by exp(-rate step) at every position and gains step k v^T."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    convolved,
    embed,
    layers,
    linear,
    rms_norm,
    silu,
    softplus,
    unembed,
    unit,
)


def mamba(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """W_o (w rms_g((y + d v) silu(W_g x))), y_i = S_i^T q_i, S_i = exp(-rate step_i) S_(i-1) + step_i k_i v_i^T."""
    heads, groups = int(n["heads"]), int(n["groups"])
    v, k, q = (silu(convolved(p(f"local_{part}"), linear(p(part), x))) for part in ("value", "key", "query"))
    step = softplus(linear(p("step"), x))
    each, made = v.shape[-1] // heads, []
    for h, (value, passed) in enumerate(zip(v.chunk(heads, -1), p["skip.weight"], strict=True)):
        key, query = (t.chunk(groups, -1)[h * groups // heads] for t in (k, q))
        state = torch.zeros(x.shape[0], key.shape[-1], each, dtype=x.dtype)
        rows = []
        for i in range(x.shape[1]):
            s = step[:, i, h, None, None]
            state = torch.exp(-torch.exp(p["rate.weight"][h]) * s) * state + s * key[:, i, :, None] * value[:, i, None]
            rows.append((query[:, i, :, None] * state).sum(1) + passed * value[:, i])
        made.append(torch.stack(rows, 1))
    y = torch.cat(made, -1) * silu(linear(p("gate"), x))
    y = p["norm.weight"] * torch.cat([unit(part, 1e-5) for part in y.chunk(groups, -1)], -1)
    return linear(p("output"), y)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = x + mamba(layer("mamba"), rms_norm(layer("mamba_input_norm"), x, 1e-5), n)
    return unembed(p, rms_norm(p("after.norm"), x, 1e-5))
