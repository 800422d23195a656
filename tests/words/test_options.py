"""Options of attention and norms that came later: what they compute, what they count, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.words.helpers import make, random_weights
from transformula.analysis.accounting import summary
from transformula.analysis.canonical import formula_hash
from transformula.analysis.receptive_field import receptive_field
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

X = {"x": 32}


def checked(layer: str, head: str = "") -> Any:
    text = f"language: 1\ndepth: 2\nwidth: 16\nheads: 2\nvocab: 9\ncontext: 16\n{head}layer: {layer}\n"
    return check(read_text(text), vocabulary(), {})


@pytest.mark.parametrize("window", [1, 2, 5, 40])
def test_a_window_to_both_sides_sees_as_far_ahead_as_back(window: int) -> None:
    attention, _ = make("attention", X, causal=False, window=window, two_sided=True)
    random_weights(attention)
    x = torch.randn(1, 9, 32, requires_grad=True)
    y = attention(x)
    for i in (0, 4, 8):
        seen = torch.autograd.grad(y[0, i].sum(), x, retain_graph=True)[0][0].abs().sum(-1) > 0
        assert seen.tolist() == [abs(i - j) <= window // 2 for j in range(9)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_window_to_both_sides_is_that_mask(dtype: torch.dtype) -> None:
    """In bfloat16 it learns by batched products; with padding a query may see nothing."""
    window, _ = make("attention", X, causal=False, window=5, two_sided=True)
    plain, _ = make("attention", X, causal=False)
    random_weights(window), random_weights(plain).load_state_dict(window.state_dict())
    x = torch.randn(2, 12, 32).to(dtype).requires_grad_()
    i = torch.arange(12)
    far = torch.zeros(1, 1, 12, 12).masked_fill((i[:, None] - i).abs() > 2, -1e9).to(dtype)
    window.to(dtype), plain.to(dtype)
    real = i < torch.tensor([[12], [8]])
    ours, hand = window(x, real=real), plain(x, scores=far, real=real)
    torch.testing.assert_close(ours[real], hand[real], rtol=0.05, atol=0.05 if dtype == torch.bfloat16 else 1e-5)
    assert torch.equal(ours[1, 11], window.output.bias)


def test_what_is_known_of_a_window_to_both_sides() -> None:
    model = checked("x = x + attention(norm(x), window=4, two_sided=True)", "causal: false\n")
    assert receptive_field(model.main).reach == "all" and receptive_field(model.main).layer == 2
    pairs = sum(abs(i - j) <= 2 for i in range(16) for j in range(16))
    alone = checked("x = x + attention(norm(x), window=1)")
    more = summary(model, length=16).totals.flops_forward - summary(alone, length=16).totals.flops_forward
    assert more == 2 * 4 * 16 * (pairs - 16) / 16  # in each layer, for a query and a key, 2 products of 16 channels
    with pytest.raises(FormulaError, match="sees what comes after a position"):
        checked("x = x + attention(norm(x), window=4, two_sided=True)")


@pytest.mark.parametrize(
    ("options", "biases"),
    [
        ({"output_bias": False}, {"query", "key", "value"}),
        ({"key_bias": False}, {"query", "value", "output"}),
        ({"bias": False, "query_bias": True}, {"query"}),
    ],
)
def test_each_matrix_has_its_own_bias(options: dict[str, bool], biases: set[str]) -> None:
    attention, _ = make("attention", X, **options)
    assert {name.removesuffix(".bias") for name, _ in attention.named_parameters() if "bias" in name} == biases


def test_a_result_of_another_width() -> None:
    built = build(checked("y = attention(norm(x), width=6); x = x + linear(y, width)"))
    assert built.layers["1"].attention.output.weight.shape == (6, 16)
    assert built(torch.zeros(1, 3, dtype=torch.long)).shape == (1, 3, 9)


def test_norms_before_or_after_rotary() -> None:
    """They differ by what their weights are; with weights of 1 turning changes no size."""
    text = 'x = x + attention(norm(x), rotary=100, qk_norm="head", rotary_first={})'
    models = [build(checked(text.format(first), "words:\n  norm: x = rmsnorm(x)\n")) for first in (False, True)]
    ids = torch.randint(9, (2, 7))
    torch.testing.assert_close(models[0](ids), models[1](ids), rtol=1e-4, atol=1e-5)
    for model in models:
        random_weights(model)
        with torch.no_grad():
            whole, decoding = model(ids), model.start(2, 7)
            steps = [model.step(chunk, decoding) for chunk in ids.split((3, 1, 3), 1)]
        torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-4, atol=1e-4)
    assert (models[0](ids) - models[1](ids)).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["rmsnorm", "layernorm"])
def test_a_weight_that_is_stored_less_one(name: str) -> None:
    gemma, plain = (make(name, X, offset=offset)[0] for offset in (1, 0))
    assert torch.equal(gemma.weight, torch.zeros(32))
    x = torch.randn(2, 3, 32)
    assert torch.equal(gemma(x), plain(x))
    random_weights(gemma)
    with torch.no_grad():
        plain.weight.copy_(gemma.weight + 1)
        if gemma.bias is not None:
            plain.bias.copy_(gemma.bias)
    torch.testing.assert_close(gemma(x), plain(x))


def test_options_at_their_defaults_leave_the_hash() -> None:
    same = "sinks=False, two_sided=False, key_bias=True, width=16, rotary_first=False, rotary_scale=1"
    assert formula_hash(checked(f"x = x + attention(norm(x, offset=0), {same})")) == formula_hash(
        checked("x = x + attention(norm(x))")
    )


@pytest.mark.parametrize(("kind", "width"), [("head", 8), ("full", 16)])
def test_a_vector_in_the_norm_of_queries_is_as_wide_as_they_are(kind: str, width: int) -> None:
    words = "words:\n  norm: x = (1 + vector(0)) * rmsnorm(x, weight=False)\n"
    built = build(checked(f'x = x + attention(norm(x), qk_norm="{kind}", kv_heads=2)', words))
    norms = (built.layers["1"].attention.query_norm, built.layers["1"].attention.key_norm)
    assert [p.shape for norm in norms for p in norm.parameters()] == [(width,), (width,)]
    offset = "words:\n  norm: x = rmsnorm(x, offset=1)\n"
    other = build(checked(f'x = x + attention(norm(x), qk_norm="{kind}", kv_heads=2)', offset))
    ids = torch.randint(9, (1, 5))
    for model in (built, other):
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 and "bias" not in name:
                torch.nn.init.constant_(parameter, 0.3)
    torch.testing.assert_close(built(ids), other(ids))
