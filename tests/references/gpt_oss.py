"""Attention with a score of each head that no key has, every other layer over a window, YaRN's rotary positions;
experts whose gates are bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, layers, linear, rms_norm, sigmoid

EPS = 1e-5


def angle(i: int, c: int, n: Mapping[str, float]) -> float:
    """By which pair c is turned at position i: fast pairs as ever, slow ones a `factor` less."""
    size, length = n["size"], n["original"]

    def pair(turns: float) -> float:
        """The pair that turns so often within the original length."""
        return size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(n["base"]))

    low, high = max(0, pair(32)), min(size - 1, pair(1))
    slow = min(1, max(0, (c - low) / (high - low)))
    rate: float = n["base"] ** (-2 * c / size)
    return i * (slow * rate / n["factor"] + (1 - slow) * rate)


def turned(x: Tensor, n: Mapping[str, float]) -> Tensor:
    """One head (batch, length, size), its halves together, times YaRN's factor."""
    half, y, scale = x.shape[-1] // 2, torch.empty_like(x), 0.1 * math.log(n["factor"]) + 1
    for i in range(x.shape[1]):
        for c in range(half):
            a, one, other = angle(i, c, n), x[:, i, c], x[:, i, c + half]
            y[:, i, c] = scale * (one * math.cos(a) - other * math.sin(a))
            y[:, i, c + half] = scale * (one * math.sin(a) + other * math.cos(a))
    return y


def attention(p: Parameters, x: Tensor, n: Mapping[str, float], window: int) -> Tensor:
    """Each position sees itself and those before it, with a window as many as it says; the sink takes its share."""
    heads, kv_heads = int(n["heads"]), int(n["kv_heads"])
    qs = [turned(q, n) for q in linear(p("query"), x).chunk(heads, -1)]
    ks = [turned(k, n) for k in linear(p("key"), x).chunk(kv_heads, -1)]
    vs = linear(p("value"), x).chunk(kv_heads, -1)
    made = []
    for h in range(heads):
        k, v = ks[h * kv_heads // heads], vs[h * kv_heads // heads]
        rows = []
        for i in range(x.shape[1]):
            first = max(0, i - window + 1) if window else 0
            exps = torch.exp((k[:, first : i + 1] @ qs[h][:, i, :, None])[..., 0] / n["size"] ** 0.5)
            shares = exps / (exps.sum(-1, keepdim=True) + torch.exp(p["sinks"][h]))
            rows.append((shares[..., None] * v[:, first : i + 1]).sum(1))
        made.append(torch.stack(rows, 1))
    return linear(p("output"), torch.cat(made, -1))


def experts(p: Parameters, x: Tensor, active: int) -> Tensor:
    """Position by position: the experts of the largest scores, weighed by a softmax over theirs."""
    rows, (n, hidden, _) = [], p["up.weight"].shape
    for v in x.flatten(0, 1):
        scores = linear(p("router"), v)
        chosen = sorted(range(n), key=lambda e: float(scores[e]))[-active:]
        total, y = sum(torch.exp(scores[e]) for e in chosen), torch.zeros_like(v)
        for e in chosen:
            of_e = slice(e * hidden, (e + 1) * hidden)
            gate = torch.clip(p["gate.weight"][e] @ v + p["gate.bias"][of_e], max=7)
            up = torch.clip(p["up.weight"][e] @ v + p["up.bias"][of_e], -7, 7)
            h = (up + 1) * gate * sigmoid(1.702 * gate)
            down = p["down.weight"][e] @ h + p["down.bias"][e * len(v) : (e + 1) * len(v)]
            y = y + torch.exp(scores[e]) / total * down
        rows.append(y)
    return torch.stack(rows).view_as(x)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        window = int(n["window"]) if number % 2 else 0
        x = x + attention(layer("attention"), rms_norm(layer("attention_input_norm"), x, EPS), n, window)
        x = x + experts(layer("experts"), rms_norm(layer("experts_input_norm"), x, EPS), int(n["active"]))
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x, EPS))
