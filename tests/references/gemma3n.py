"""Four streams that a layer predicts, changes in one and corrects in all; an embedding of the token for every layer;
keys and values that the last layers share; a sparse MLP in the first."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import (
    Parameters,
    core,
    embed,
    gelu_tanh,
    layers,
    linear,
    relu,
    rms_norm,
    rotary,
    unembed,
    unit,
)

QUANTILE = 1.6448536269514722  # of the normal distribution at 0.95


def as_large(p: Parameters, x: Tensor, other: Tensor) -> Tensor:
    """W other, as large as x."""
    y = linear(p("matrix"), other)
    return y * ((x * x).sum(-1, keepdim=True) / (y * y).sum(-1, keepdim=True)) ** 0.5


def by_heads(p: Parameters, x: Tensor, size: int) -> Tensor:
    """Each head's RMSNorm, one weight for all."""
    return torch.cat([rms_norm(p, head) for head in x.split(size, -1)], -1)


def routed(p: Parameters, x: Tensor) -> Tensor:
    """tanh(W norm(x) / width), 4 numbers."""
    return torch.tanh(linear(p("router"), rms_norm(p("router_norm"), x) / x.shape[-1]))


def mlp(p: Parameters, x: Tensor, sparse: bool) -> Tensor:
    """A gated MLP; sparse: of the gate what exceeds its mean by QUANTILE standard deviations, less that."""
    gate = linear(p("gate"), x)
    if sparse:
        mean = gate.mean(-1, keepdim=True)
        gate = relu(gate - mean - QUANTILE * ((gate - mean) ** 2).mean(-1, keepdim=True) ** 0.5)
    return linear(p("down"), gelu_tanh(gate) * linear(p("up"), x))


def attention(
    p: Parameters, u: Tensor, number: int, n: Mapping[str, float], kept: dict[bool, tuple[Tensor, Tensor]]
) -> Tensor:
    """Every fifth layer sees all; `kept`: the last keys and values of layers that see all, and of the others."""
    heads, kv_heads, size, full = int(n["heads"]), int(n["kv_heads"]), int(n["size"]), number % 5 == 0
    base, window = (1000000, 0) if full else (10000, int(n["window"]))
    q = rotary(by_heads(p("query_norm"), linear(p("query"), u), size), heads, base)
    if number <= n["own"]:
        k = rotary(by_heads(p("key_norm"), linear(p("key"), u), size), kv_heads, base)
        kept[full] = k, torch.cat([unit(v) for v in linear(p("value"), u).split(size, -1)], -1)
    return linear(p("output"), core(q, *kept[full], heads, kv_heads, window, scale=1))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    token, kept = int(n["token"]), dict[bool, tuple[Tensor, Tensor]]()
    x = n["width"] ** 0.5 * embed(p, tokens)
    made = (linear(p("per_layer_matrix"), x) / n["width"] ** 0.5).split(token, -1)
    tables = (token**0.5 * p["per_layer.weight"][tokens]).split(token, -1)
    streams = [x, *(as_large(p(f"enter_{name}"), x, x) for name in "bcd")]
    for number, layer in enumerate(layers(p, n), 1):
        w = linear(layer("predict"), routed(layer("altup"), streams[0]))
        predicted = [s + sum(w[..., 4 * i + j, None] * streams[j] for j in range(4)) for i, s in enumerate(streams)]
        u = rms_norm(layer("input"), predicted[0])
        a = rms_norm(layer("attention_norm"), attention(layer, u, number, n, kept))
        narrow = linear(layer("laurel.right"), linear(layer("laurel.left"), u))
        y = (predicted[0] + a + u + rms_norm(layer("laurel.right_output_norm"), narrow)) / math.sqrt(2)
        f = mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), y), number <= n["sparse"])
        y = y + rms_norm(layer("mlp_output_norm"), f)
        w = 1 + linear(layer("correct"), routed(layer("altup"), y))
        streams = [s + w[..., i, None] * (y - predicted[0]) for i, s in enumerate(predicted)]
        of_layer = (tables[number - 1] + rms_norm(p("per_layer_norm"), made[number - 1])) / math.sqrt(2)
        g = gelu_tanh(linear(layer("token_gate"), layer["scale.weight"] * streams[0])) * of_layer
        g = rms_norm(layer("token_norm"), linear(layer("token_output"), g))
        streams = [streams[0], *(s + g for s in streams[1:])]
    x = streams[0]
    whole = sum((as_large(p(f"leave_{name}"), x, s) for name, s in zip("bcd", streams[1:], strict=True)), x)
    return 30 * torch.tanh(unembed(p, rms_norm(p("final"), whole / 4)) / 30)
