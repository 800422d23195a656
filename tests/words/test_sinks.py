"""Sinks: a score of each head that the softmax counts besides those of the keys, on every way that attention takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import random_weights
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

WAYS: dict[str, dict[str, Any]] = {
    "kv_heads=2": {},
    "window=3": {"window": 3},
    "cap=2": {"cap": 2},
    "score=near": {"near": True},
    "mask=even, window=5, kv_heads=1": {"even": True, "window": 5},
}
WORDS = {"near": "near(s, h, i, j): s = s - h / heads * (i - j)", "even": "even(i, j): m = i % 2 == j % 2"}


def model(options: str, causal: bool) -> Any:
    words = "".join(f"  {line}\n" for name, line in WORDS.items() if f"={name}" in options)
    text = f"""
language: 1
{"words:" if words else ""}
{words}
depth: 2
width: 16
heads: 4
vocab: 9
context: 16
causal: {str(causal).lower()}
layer: |
  x = x + attention(norm(x), sinks=True, {options})
  x = x + mlp(norm(x))
"""
    return random_weights(build(check(read_text(text), vocabulary(), {}), dtype=torch.float64)).eval()


def by_hand(
    attention: Any, x: Tensor, causal: bool, window: int = 0, cap: float = 0, near: bool = False, even: bool = False
) -> Tensor:
    """exp(s) v / (exp(b) + sum of exp(s)), the scores of what is not seen left out."""
    (batch, length, _), heads, size = x.shape, attention.heads, attention.size
    matrices = (attention.query, attention.key, attention.value)
    q, k, v = (matrix(x).view(batch, length, -1, size).transpose(1, 2) for matrix in matrices)
    k, v = (t.repeat_interleave(heads // t.shape[1], 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) / size**0.5
    i, j = torch.arange(length)[:, None], torch.arange(length)
    if cap:
        s = cap * torch.tanh(s / cap)
    if near:
        s = s - torch.arange(1, heads + 1)[:, None, None] / heads * (i - j)
    seen = (j <= i) | (not causal)
    seen = seen & (j > i - window) if window else seen
    seen = seen & (i % 2 == j % 2) if even else seen
    e = torch.exp(s) * seen
    weights = e / (e.sum(-1, keepdim=True) + torch.exp(attention.sinks)[:, None, None])
    return attention.output((weights @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", WAYS)
def test_sinks_are_a_score_without_a_key(options: str, causal: bool) -> None:
    if not causal and "window" in options:
        return
    attention = model(options, causal).layers["1"].attention
    x = torch.randn(2, 9, 16, dtype=torch.float64, requires_grad=True)
    ours, hand = attention(x), by_hand(attention, x, causal, **WAYS[options])
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-12)
    weights = [x, *attention.parameters()]
    gradients = (torch.autograd.grad(y.square().sum(), weights) for y in (ours, hand))
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)
    single = attention.float()(x.detach().float().requires_grad_())  # by batched products, on a CPU, where it learns
    torch.testing.assert_close(single, hand.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", WAYS)
def test_sinks_in_decoding(options: str) -> None:
    decoder = model(options, True)
    ids = torch.randint(9, (3, 9))
    with torch.no_grad():
        whole, decoding = decoder(ids), decoder.start(3, 9)
        steps = [decoder.step(chunk, decoding) for chunk in ids.split((4, 1, 1, 2, 1), 1)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-10, atol=1e-10)


def test_dropout_of_weights_leaves_the_sink_in_the_sum() -> None:
    layer = model("kv_heads=2, dropout=0.5", True).layers["1"].attention.float().train()
    x = torch.randn(1, 6, 16).expand(2000, 6, 16).clone().requires_grad_()  # it learns: by batched products
    mean = layer(x).mean(0)
    torch.testing.assert_close(mean, layer.eval()(x)[0], rtol=0.1, atol=0.25)
