"""Fast paths for training on a CPU: the same function as PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transformula.words.cpu import dropout, keep_mask, product_attention, use_products
from transformula.words.rms import rms_norm


def heads(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_()


def reference(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, window: int) -> Tensor:
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    seen = (j <= i) if causal or window else torch.ones(len(i), len(j), dtype=torch.bool)
    seen = seen & (j > i - window) if window else seen
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale, enable_gqa=True)


@pytest.mark.parametrize(
    ("queries", "keys", "size", "length", "causal", "window"),
    [
        (4, 4, 8, 1, True, 0),
        (4, 4, 8, 70, True, 0),
        (4, 2, 8, 300, True, 0),
        (4, 1, 6, 130, True, 7),
        (6, 3, 8, 65, True, 200),
        (2, 2, 8, 90, False, 0),
    ],
)
def test_products_are_attention_and_its_gradients(
    queries: int, keys: int, size: int, length: int, causal: bool, window: int
) -> None:
    q, k, v = heads(2, queries, length, 8), heads(2, keys, length, 8), heads(2, keys, length, size)
    result = product_attention(q, k, v, scale=0.3, causal=causal, window=window)
    expected = reference(q, k, v, 0.3, causal, window)
    torch.testing.assert_close(result, expected, atol=1e-12, rtol=1e-12)
    along = torch.randn_like(result)
    for mine, theirs in zip(
        torch.autograd.grad(result, (q, k, v), along), torch.autograd.grad(expected, (q, k, v), along), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-11, rtol=1e-11)


def test_products_over_another_length() -> None:
    q, k, v = heads(2, 4, 9, 8), heads(2, 2, 5, 8), heads(2, 2, 5, 8)
    result = product_attention(q, k, v, scale=0.3, causal=False)
    torch.testing.assert_close(result, reference(q, k, v, 0.3, False, 0))


@pytest.mark.parametrize("length", [20, 100])
def test_gradients_with_dropout_are_those_of_the_drawn_weights(length: int) -> None:
    """With the generator set back, the function is a fixed one: its gradient is held to differences."""
    q, k, v = heads(1, 2, length, 4), heads(1, 1, length, 4), heads(1, 1, length, 4)
    along = torch.randn(1, 2, length, 4, dtype=torch.float64)

    def value(*streams: Tensor) -> Tensor:
        torch.manual_seed(5)
        return (product_attention(*streams, scale=0.5, dropout=0.3) * along).sum()

    gradients = torch.autograd.grad(value(q, k, v), (q, k, v))
    for n, gradient in enumerate(gradients):
        direction = torch.randn_like(gradient)
        there, back = [q, k, v], [q, k, v]
        there[n], back[n] = there[n] + 1e-6 * direction, back[n] - 1e-6 * direction
        slope = (value(*there) - value(*back)) / 2e-6
        torch.testing.assert_close((gradient * direction).sum(), slope, atol=1e-6, rtol=1e-6)


def test_dropout_of_weights_keeps_the_mean() -> None:
    torch.manual_seed(0)
    q, k, v = heads(1, 1, 64, 8), heads(1, 1, 64, 8), heads(1, 1, 64, 8)
    drawn = torch.stack([product_attention(q, k, v, scale=0.1, dropout=0.25) for _ in range(600)])
    plain = product_attention(q, k, v, scale=0.1)
    deviation = drawn.std(0) / 600**0.5
    far = ((drawn.mean(0) - plain).abs() / deviation.clamp(min=1e-9))[..., 1:, :]
    assert far.mean() < 1.0 and (far > 4).double().mean() < 0.01


def test_bfloat16_is_as_near_as_attention_of_its_own() -> None:
    torch.manual_seed(0)
    q, k, v = (heads(2, 4, 128, 32) for _ in range(3))
    expected = reference(q, k, v, 0.2, True, 0)
    low = [t.detach().bfloat16().requires_grad_() for t in (q, k, v)]
    mine = product_attention(*low, scale=0.2).double() - expected
    theirs = F.scaled_dot_product_attention(*low, is_causal=True, scale=0.2).double() - expected
    assert mine.square().mean().sqrt() < 3 * theirs.square().mean().sqrt()


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_keeps_what_it_says(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 256, dtype=dtype, requires_grad=True)
    y = dropout(x, p)
    kept = round((1 - p) * 256) / 256
    count = x.numel()
    assert abs((y != 0).double().mean().item() - kept) < 5 * (kept * (1 - kept) / count) ** 0.5
    torch.testing.assert_close(y.detach().max().float(), torch.tensor(1 / kept), rtol=4e-3, atol=0)
    y.backward(torch.full_like(y, 2))
    torch.testing.assert_close(x.grad, y.detach() * 2)


def test_mask_bits_are_independent() -> None:
    """Every byte of a draw is fair, neighbours are not alike: fairness in each of eight places, and pairs."""
    torch.manual_seed(1)
    kept, scale = keep_mask((40_000, 8), 0.5)
    assert scale == 2
    assert (kept.double().mean(0) - 0.5).abs().max() < 5 * 0.5 / 200
    both = (kept[:, :-1] & kept[:, 1:]).double().mean(0)
    assert (both - 0.25).abs().max() < 5 * 0.44 / 200
    assert abs((kept[:-1] & kept[1:]).double().mean().item() - 0.25) < 5 * 0.44 / 560


def test_dropout_repeats_with_the_generator() -> None:
    x = torch.randn(30, 7)
    torch.manual_seed(3)
    first = dropout(x, 0.3)
    second = dropout(x, 0.3)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.3), first) and not torch.equal(first, second)


def test_rare_and_sure_dropout() -> None:
    x = torch.ones(100, 100)
    assert dropout(x, 1.0).abs().max() == 0
    torch.manual_seed(0)
    assert 0 < (dropout(x, 0.001) == 0).sum() < 40  # p too small for 8 bits


def test_products_are_used_where_they_are_faster() -> None:
    q = torch.zeros(1, 1, 256, 8, requires_grad=True)
    low = q.detach().bfloat16().requires_grad_()
    assert use_products(low, 64, 0) and not use_products(low, 4096, 0) and use_products(low, 4096, 0.1)
    assert use_products(q, 64, 0.1) and not use_products(q, 64, 0)
    assert not use_products(q.detach(), 256, 0)
    with torch.no_grad():
        assert not use_products(low, 256, 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 16), (3, 2, 4, 8), (12,)])
def test_rms_norm_is_pytorchs(dtype: torch.dtype, weighted: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    near = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2}[dtype]
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    weight = torch.randn(shape[-1], dtype=dtype, requires_grad=True) if weighted else None
    inputs = (x, weight) if weighted else (x,)
    mine, theirs = rms_norm(x, weight, 1e-6), F.rms_norm(x, shape[-1:], weight, 1e-6)
    torch.testing.assert_close(mine, theirs, atol=near, rtol=near)
    along = torch.randn_like(mine)
    for a, b in zip(torch.autograd.grad(mine, inputs, along), torch.autograd.grad(theirs, inputs, along), strict=True):
        torch.testing.assert_close(a, b, atol=8 * near, rtol=8 * near)
    with torch.no_grad():
        torch.testing.assert_close(rms_norm(x, weight, 1e-6), theirs, atol=near, rtol=near)


def test_rms_norm_passes_the_check_of_gradients() -> None:
    x, weight = torch.randn(3, 6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: rms_norm(a, b, 1e-3), (x.requires_grad_(), weight.requires_grad_()))
    assert torch.autograd.gradcheck(lambda a: rms_norm(a, None, 1e-3), (x,))
