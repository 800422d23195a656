"""A log-mel spectrogram through two convolutions, a pre-norm encoder, and a pre-norm decoder over it; keys without a
bias."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, convolved, core, embed, gelu, layer_norm, layers, linear, mlp, unembed


def hertz(mels: float) -> float:
    """200 / 3 Hz a mel up to 1,000 Hz; above, a factor of 6.4 for every 27."""
    return mels * 200 / 3 if mels < 15 else 1000 * 6.4 ** ((mels - 15) / 27)


def log_mel(audio: Tensor, bands: int) -> Tensor:
    """(batch, samples // 160, bands), 16,000 samples a second, frames of 400."""
    mirrored = torch.cat([audio[:, 1:201].flip(1), audio, audio[:, -201:-1].flip(1)], 1)
    window = torch.tensor([math.sin(math.pi * s / 400) ** 2 for s in range(400)], dtype=torch.float64)
    angles = 2 * math.pi / 400 * torch.outer(torch.arange(400.0), torch.arange(201.0)).to(torch.float64)
    filters = torch.zeros(201, bands, dtype=torch.float64)
    most = 15 + 27 * math.log(8) / math.log(6.4)  # of 8,000 Hz
    edges = [hertz(most * edge / (bands + 1)) for edge in range(bands + 2)]
    for band, (left, middle, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        for place in range(201):
            f = 40.0 * place
            height = min((f - left) / (middle - left), (right - f) / (right - middle))
            filters[place, band] = max(height, 0) * 2 / (right - left)
    rows = []
    for i in range(audio.shape[1] // 160):
        frame = mirrored[:, 160 * i : 160 * i + 400] * window
        rows.append(((frame @ angles.cos()) ** 2 + (frame @ angles.sin()) ** 2) @ filters)
    m = torch.log10(torch.clamp(torch.stack(rows, 1), min=1e-10))
    loudest = m.flatten(1).max(1).values[:, None, None]
    return (torch.maximum(m, loudest - 8) + 4) / 4


def attend(p: Parameters, x: Tensor, memory: Tensor, n: Mapping[str, float], causal: bool) -> Tensor:
    """W_o softmax(q k^T / sqrt(size)) v."""
    q, k, v = linear(p("query"), x), linear(p("key"), memory), linear(p("value"), memory)
    return linear(p("output"), core(q, k, v, int(n["heads"]), causal=causal))


def waves(length: int, width: int) -> Tensor:
    """All sines, then all cosines; the last wave is 10,000 times as long as the first."""
    steps = [10000 ** (-c / (width / 2 - 1)) for c in range(width // 2)]
    rows = [[f(i * step) for f in (math.sin, math.cos) for step in steps] for i in range(length)]
    return torch.tensor(rows, dtype=torch.float64)


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    memory = gelu(convolved(p("one"), log_mel(given["audio"], int(n["mels"])), 1))
    memory = gelu(convolved(p("two"), memory, 1)[:, ::2])
    memory = memory + waves(*memory.shape[1:])
    for layer in layers(p, n, "encoder"):
        u = layer_norm(layer("attention_input_norm"), memory)
        memory = memory + attend(layer("attention"), u, u, n, causal=False)
        memory = memory + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), memory))
    memory = layer_norm(p("encoder.after.norm"), memory)
    x = embed(p, given["tokens"]) + p["decoder.before.positions.weight"][: given["tokens"].shape[1]]
    for layer in layers(p, n, "decoder"):
        u = layer_norm(layer("attention_input_norm"), x)
        x = x + attend(layer("attention"), u, u, n, causal=True)
        u = layer_norm(layer("cross_attention_input_norm"), x)
        x = x + attend(layer("cross_attention"), u, memory, n, causal=False)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("decoder.after.norm"), x))
