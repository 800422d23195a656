"""What kernels make where a text is read gives what PyTorch gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.engine.test_kernels import numbers
from tests.engine.test_machine import MANY_KINDS, module, prompts_of
from tests.invariants.harness import CAUSAL, built, every_day, fresh
from transformula.engine import quicken, quickening
from transformula.engine.packing import Packing
from transformula.engine.reading import ByKernels, attention, read_by
from transformula.generation.decoding import generate
from transformula.generation.settings import SamplingSettings
from transformula.model.transformer import evaluating

SHAPES = [(6, 6, 8, 8), (7, 7, 5, 19), (13, 40, 64, 64), (70, 70, 16, 48), (130, 130, 33, 16), (9, 5, 16, 16)]
"""Queries, keys, and sizes of these and of values."""


def qkv(shape: tuple[int, int, int, int], heads: int = 4, kv_heads: int = 2) -> list[Tensor]:
    """As words have them: views of (batch, length, heads, size)."""
    queries, keys, size, values = shape
    sizes = ((queries, heads, size), (keys, kv_heads, size), (keys, kv_heads, values))
    return [numbers(2, *each, seed=number).transpose(1, 2) for number, each in enumerate(sizes)]


def masks(queries: int, keys: int) -> dict[str, Tensor | None]:
    """A window, padding of one row, and a bias of each head that hides some keys."""
    places = torch.arange(keys) - torch.arange(queries)[:, None]
    padding = torch.ones(2, 1, 1, keys, dtype=torch.bool)
    padding[1, :, :, keys - 2 :] = False
    bias = numbers(2, 4, queries, keys, seed=5).masked_fill(numbers(2, 1, queries, keys, seed=6) > 1, -math.inf)
    bias[..., 0] = 0
    return {"none": None, "window": (places <= 0) & (places > -4), "padding": padding, "bias": bias}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["none", "causal", "window", "padding", "bias"])
def test_attention_of_many_queries(shape: tuple[int, int, int, int], kind: str) -> None:
    q, k, v = qkv(shape)
    mask = masks(*shape[:2])["none" if kind == "causal" else kind]
    for scale in (None, 0.3):
        expected = F.scaled_dot_product_attention(q, k, v, mask, 0.0, kind == "causal", scale=scale, enable_gqa=True)
        y = attention(q, k, v, mask, kind == "causal", scale)
        blind = expected.isnan()  # a query that sees no key: PyTorch divides 0 by 0
        assert blind.float().mean() < 0.5 and not y[blind].any()
        torch.testing.assert_close(y[~blind], expected[~blind], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_attention_hides_no_number_that_is_not_finite(number: float) -> None:
    q, k, v = qkv((20, 20, 16, 16))
    k[1, 0, 7, 3] = number
    y = attention(q, k, v, None, causal=True)
    assert y[1, :2, 7:].isnan().any(-1).any() and y[0].isfinite().all() and y[1, :, :7].isfinite().all()
    if math.isnan(number):
        assert y[1, :2, 7:].isnan().all()


FUNCTIONS: dict[str, Any] = {
    "gelu": lambda x, w: F.gelu(x, approximate="tanh"),
    "layer norm": lambda x, w: F.layer_norm(x, (24,), w[0], w[1]),
    "layer norm, plain": lambda x, w: F.layer_norm(x, (24,), eps=1e-3),
    "RMSNorm": lambda x, w: F.rms_norm(x, (24,), w[0], 1e-6),
    "RMSNorm, plain": lambda x, w: F.rms_norm(x, (24,)),
    "norm of two dimensions": lambda x, w: F.layer_norm(x, (5, 24)),
    "gelu, exact": lambda x, w: F.gelu(x),
    "attention with dropout of 0": lambda x, w: F.scaled_dot_product_attention(x, x, x, dropout_p=0.0),
    "by names": lambda x, w: F.gelu(input=F.layer_norm(input=x, normalized_shape=(24,)), approximate="tanh"),
    "linear, by names": lambda x, w: F.linear(x, weight=numbers(7, 24), bias=numbers(7)),
    "attention by names": lambda x, w: F.scaled_dot_product_attention(query=x, key=x, value=x, attn_mask=x @ x.mT),
    "attention of names": lambda x, w: F.scaled_dot_product_attention(x, key=x, value=x, attn_mask=x @ x.mT),
    "attention of single rows": lambda x, w: F.scaled_dot_product_attention(x[0], x[0], x[0], is_causal=True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_pytorch_are_the_same_within(name: str) -> None:
    """As called by a word, of tensors that lie one behind the other and of such that do not."""
    w = numbers(2, 24, seed=9)
    for x in (3 * numbers(2, 8, 5, 24), 3 * numbers(2, 8, 24, 5).mT):
        with torch.no_grad():
            expected = FUNCTIONS[name](x, w)
            with read_by(Packing()):
                torch.testing.assert_close(FUNCTIONS[name](x, w), expected, rtol=2e-5, atol=2e-6)


def test_far_numbers_of_gelu() -> None:
    x = torch.tensor([-1e30, -200.0, -12.0, 0.0, 12.0, 200.0, 1e30, math.nan])
    with torch.no_grad(), read_by(Packing()):
        y = F.gelu(x, approximate="tanh")
    torch.testing.assert_close(y, F.gelu(x, approximate="tanh"), atol=1e-7, rtol=1e-6, equal_nan=True)


def test_other_types_and_gradients_are_left_to_pytorch() -> None:
    x = numbers(1, 2, 8, 24).requires_grad_()
    with read_by(Packing()):
        F.gelu(x, approximate="tanh").sum().backward()
        assert x.grad is not None and x.grad.any()
        with torch.no_grad():
            y = F.scaled_dot_product_attention(*[x.detach().double()] * 3)
    assert y.dtype == torch.float64


@pytest.mark.parametrize("name", every_day(CAUSAL, MANY_KINDS))
def test_every_wiring_reads_what_its_own_code_reads(name: str) -> None:
    """Logits of a prompt of ten positions, and of three more behind it."""
    model = fresh(name, torch.float32)
    given, fixed, room = prompts_of(name, built(name).context_limit)
    view = evaluating(model)

    def read() -> list[Tensor]:
        decoding, outputs = view.start(2, room, **fixed), []
        for part in (slice(0, 7), slice(7, 10)):
            made = view.step(**{name: each[:, part] for name, each in given.items()}, decoding=decoding)
            outputs.append(made if isinstance(made, Tensor) else made["logits"])
        return outputs

    with torch.inference_mode():
        expected = read()
        with read_by(Packing()):
            for ours, theirs in zip(read(), expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()))


def test_long_prompts_are_read_by_kernels_and_short_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = module(context=128), []
    whole = ByKernels.__torch_function__

    def noted(self: ByKernels, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls.append(func)
        return whole(self, func, types, args, kwargs)

    monkeypatch.setattr(ByKernels, "__torch_function__", noted)
    prompt = [1 + number % 17 for number in range(quickening.FEWEST_READ)]
    for text, engine in ((prompt[:-1], "auto"), (prompt, "torch")):
        generate(model, [text], SamplingSettings(max_tokens=2, temperature=0.0, engine=engine))
        assert not calls
    texts = [
        generate(model, [prompt, prompt[:9]], SamplingSettings(max_tokens=30, temperature=0.0, engine=engine))
        for engine in ("auto", "torch")
    ]
    assert F.scaled_dot_product_attention in calls and texts[0] == texts[1]


def test_without_kernels_a_prompt_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformula.engine import build
    from transformula.engine.recording import NoProgram

    def none(wait: bool = False) -> Any:
        raise NoProgram("there is no compiler")

    monkeypatch.setattr(build, "library", none)
    model, prompt = module(context=128), torch.arange(100)[None] % 17
    view = evaluating(model)
    with torch.inference_mode(), quicken(model, view):
        assert view.step(prompt, view.start(1, 128)).isfinite().all()
