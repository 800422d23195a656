"""Attention against its equation by hand, with random weights; what it sees; its taps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import make, random_weights
from transformula.errors import InputError

OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False, "scale": 1},
    {"kv_heads": 2, "size": 6},
    {"kv_heads": 1, "window": 3, "cap": 2},
    {"window": 4, "kv_heads": 2},
    {"qk_norm": "head", "v_norm": True, "rotary": 10000},
    {"qk_norm": "full", "v_norm": True, "kv_heads": 2, "rotary": 100, "rotary_part": 0.5},
    {"rotary": 100, "rotary_pairs": True, "cap": 5},
]


def turned(x: Tensor, position: int, base: float, part: float, pairs: bool) -> Tensor:
    """One head's vector turned, pair by pair, as the paper draws it."""
    size = round(part * len(x))
    y = x.clone()
    for c in range(size // 2):
        a, b = (2 * c, 2 * c + 1) if pairs else (c, c + size // 2)
        angle = position / base ** (2 * c / size)
        y[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        y[b] = x[a] * math.sin(angle) + x[b] * math.cos(angle)
    return y


def by_hand(module: Any, n: dict[str, Any], q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Position by position, head by head."""
    query, key, value = module.query(q), module.key(k), module.value(v)
    if n["qk_norm"] == "full":
        query, key = module.query_norm(query), module.key_norm(key)
        value = module.value_norm(value) if n["v_norm"] else value
    batch, length, _ = q.shape
    size, shared = n["size"], n["heads"] // n["kv_heads"]
    result = torch.zeros(batch, length, n["heads"] * size, dtype=q.dtype)

    def part(x: Tensor, b: int, i: int, h: int, norm: Any, rotary: bool) -> Tensor:
        x = x[b, i, h * size : (h + 1) * size]
        x = norm(x) if norm is not None and n["qk_norm"] != "full" else x
        return turned(x, i, n["rotary"], n["rotary_part"], n["rotary_pairs"]) if rotary and n["rotary"] else x

    for b in range(batch):
        for h in range(n["heads"]):
            for i in range(length):
                seen = [
                    j
                    for j in range(length)
                    if (j <= i or not (causal or n["window"])) and (not n["window"] or j > i - n["window"])
                ]
                a = part(query, b, i, h, module.query_norm, True)
                scores = torch.stack([a @ part(key, b, j, h // shared, module.key_norm, True) for j in seen])
                scores = scores * n["scale"]
                if n["cap"]:
                    scores = n["cap"] * torch.tanh(scores / n["cap"])
                weights = torch.softmax(scores, 0)
                values = torch.stack([part(value, b, j, h // shared, module.value_norm, False) for j in seen])
                result[b, i, h * size : (h + 1) * size] = weights @ values
    return module.output(result)


@pytest.mark.parametrize("options", OPTIONS, ids=[str(n) for n in range(len(OPTIONS))])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", ["x", "qkv"])
def test_equation(options: dict[str, Any], causal: bool, form: str) -> None:
    widths = {"x": 32} if form == "x" else {"q": 32, "k": 12, "v": 20}
    module, names = make("attention", widths, causal=causal, **options)
    module = random_weights(module.double())
    streams = [torch.randn(2, 7, w, dtype=torch.float64) for w in widths.values()]
    q, k, v = streams * 3 if form == "x" else streams
    with torch.no_grad():
        expected = by_hand(module, names, q, k, v, causal)
        torch.testing.assert_close(module(*streams), expected, atol=1e-9, rtol=1e-9)
        # the taps force the path over scores, which is another one
        result, scores = module(*streams, taps=("scores",))
        torch.testing.assert_close(result, expected, atol=1e-9, rtol=1e-9)
        assert scores.shape == (2, 4, 7, 7) and scores.isfinite().all()
    trained = module(*[s.requires_grad_() for s in streams])
    torch.testing.assert_close(trained, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("values", [32, 64])
@pytest.mark.parametrize("options", [{}, {"window": 3}, {"cap": 2.0, "scale": 0.7}, {"softmax": False}])
def test_dot_attention_is_attention_without_matrices(options: dict[str, Any], values: int) -> None:
    module, names = make("dot_attention", {"q": 32, "k": 16, "v": values // 2}, **options)
    q, k, v = (torch.randn(2, 6, w, dtype=torch.float64) for w in (32, 16, values // 2))
    result = module(q, k, v)
    assert result.shape == (2, 6, values)
    heads = [slice(8 * h, 8 * h + 8) for h in range(4)]
    size = values // 4
    i, j = torch.arange(6)[:, None], torch.arange(6)
    seen = (j <= i) & (j > i - (options.get("window") or 6))
    for h in range(4):
        scores = q[..., heads[h]] @ k[..., heads[h // 2]].mT * names["scale"]
        scores = 2 * torch.tanh(scores / 2) if "cap" in options else scores
        weights = scores * seen if "softmax" in options else scores.masked_fill(~seen, -math.inf).softmax(-1)
        expected = weights @ v[..., size * (h // 2) : size * (h // 2) + size]
        torch.testing.assert_close(result[..., size * h : size * h + size], expected, atol=1e-12, rtol=1e-12)


def test_the_cat_and_the_mouse() -> None:
    """The worked example: plain products of a query and two keys."""
    q = torch.tensor([[[-2, 3, 2.5, -1, 1.5, -2]]])
    keys = torch.tensor([[[-1.8, 2.8, 3, 0.2, 2.5, -1.5], [-1.5, -2, 2.8, -0.5, -2, 3]]])
    module, _ = make("dot_attention", {"q": 6, "k": 6, "v": 6}, heads=1, scale=1, causal=False)
    _, scores = module(q, keys, keys, taps=("scores",))
    torch.testing.assert_close(scores.flatten(), torch.tensor([26.05, -4.5]))


@pytest.mark.parametrize("options", [{}, {"cap": 5}, {"rotary": 100}])
def test_a_random_last_position_changes_nothing_before(options: dict[str, Any]) -> None:
    module, _ = make("attention", {"x": 32}, **options)
    x = torch.randn(2, 9, 32)
    other = torch.cat((x[:, :-1], torch.randn(2, 1, 32)), 1)
    assert torch.equal(module(x)[:, :-1], module(other)[:, :-1])
    free, _ = make("attention", {"x": 32}, causal=False, **options)
    assert not torch.allclose(free(x)[:, :-1], free(other)[:, :-1])


def test_taps_are_what_was_used() -> None:
    module, names = make("attention", {"x": 32}, rotary=100, kv_heads=2, qk_norm="head")
    x = torch.randn(2, 5, 32)
    result, q, k, v, scores = module(x, taps=("q", "k", "v", "scores"))
    assert q.shape == (2, 5, 32) and k.shape == v.shape == (2, 5, 16)
    q, k = q.unflatten(2, (4, 8)).transpose(1, 2), k.unflatten(2, (2, 8)).transpose(1, 2)
    torch.testing.assert_close(scores, q @ k.repeat_interleave(2, 1).mT * names["scale"])
    torch.testing.assert_close(result, module(x))


def test_dropout_of_weights_is_in_training_only() -> None:
    module, _ = make("attention", {"x": 32}, dropout=0.5)
    x = torch.randn(2, 40, 32)
    module.eval()
    assert torch.equal(module(x), module(x))
    module.train()
    assert not torch.equal(module(x), module(x))


def test_what_cannot_be_is_said() -> None:
    module, _ = make("attention", {"x": 32})
    with pytest.raises(InputError, match="scores of 3 heads are given to attention of 4 heads"):
        module(torch.randn(1, 5, 32), scores=torch.zeros(1, 3, 5, 5))
    core, _ = make("dot_attention", {"q": 32, "k": 32, "v": 32})
    with pytest.raises(InputError, match="as many keys as queries"):
        core(torch.randn(1, 5, 32), torch.randn(1, 6, 32), torch.randn(1, 6, 32))
    with pytest.raises(InputError, match="13 of a head's"):
        make("attention", {"x": 64}, heads=2, rotary=100, rotary_part=0.4)
