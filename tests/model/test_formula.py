"""A formula against the same equation written by hand in PyTorch, with random weights, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.model.helpers import make, tokens
from transformula.errors import InputError
from transformula.model import Transformer


def attention(p: dict[str, Tensor], at: str, x: Tensor, heads: int = 4) -> Tensor:
    """Causal attention, from the parameters' names alone."""
    q, k, v = (
        F.linear(x, p[f"{at}.{n}.weight"], p[f"{at}.{n}.bias"]).unflatten(-1, (heads, -1)).transpose(1, 2)
        for n in ("query", "key", "value")
    )
    scores = q @ k.mT / q.shape[-1] ** 0.5
    seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    y = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
    return F.linear(y.transpose(1, 2).flatten(2), p[f"{at}.output.weight"], p[f"{at}.output.bias"])


def mlp(p: dict[str, Tensor], at: str, x: Tensor) -> Tensor:
    h = F.gelu(F.linear(x, p[f"{at}.up.weight"], p[f"{at}.up.bias"]))
    return F.linear(h, p[f"{at}.down.weight"], p[f"{at}.down.bias"])


def norm(p: dict[str, Tensor], at: str, x: Tensor) -> Tensor:
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt() * p[f"{at}.weight"] + p[f"{at}.bias"]


def same(model: Transformer, by_hand: Any) -> None:
    p = dict(model.named_parameters())
    given = tokens()
    torch.testing.assert_close(model(given), by_hand(p, given), rtol=1e-9, atol=1e-9)


def embedded(p: dict[str, Tensor], given: Tensor) -> Tensor:
    return p["words.weight"][given] + p["before.positions.weight"][: given.shape[1]]


def test_pre_norm() -> None:
    def by_hand(p: dict[str, Tensor], given: Tensor) -> Tensor:
        x = embedded(p, given)
        for layer in ("layers.1", "layers.2", "layers.3"):
            x = x + attention(p, f"{layer}.attention", norm(p, f"{layer}.attention_input_norm", x))
            x = x + mlp(p, f"{layer}.mlp", norm(p, f"{layer}.mlp_input_norm", x))
        return norm(p, "after.norm", x) @ p["words.weight"].T

    same(make("x = x + attention(norm(x))\nx = x + mlp(norm(x))", after="x = norm(x)"), by_hand)


def test_residual_of_two_streams() -> None:
    def by_hand(p: dict[str, Tensor], given: Tensor) -> Tensor:
        x = r = embedded(p, given)
        for layer in ("layers.1", "layers.2", "layers.3"):
            a = attention(p, f"{layer}.attention", x)
            r = r + a
            x = norm(p, f"{layer}.attention_sum_norm", x + a)
            f = mlp(p, f"{layer}.mlp", x)
            r = r + f
            x = norm(p, f"{layer}.mlp_sum_norm", x + f)
        return (x + norm(p, "after.norm", r)) @ p["words.weight"].T

    same(
        make("""
before: |
  x = embed.words(tokens) + positions(tokens)
  r = x
layer: |
  a = attention(x)
  r = r + a
  x = norm(x + a)
  f = mlp(x)
  r = r + f
  x = norm(x + f)
after: x = x + norm(r)
output: logits = unembed.words(x)
"""),
        by_hand,
    )


def test_history_and_numbers_of_the_layer() -> None:
    """The mixture of all layers so far; the layer before last; a factor that differs from layer to layer."""

    def by_hand(p: dict[str, Tensor], given: Tensor) -> Tensor:
        x = embedded(p, given)
        h = [x]
        for n in (1, 2, 3):
            y = x + attention(p, f"layers.{n}.attention", x) / n
            if n > 1:
                y = y - 0.5 * h[n - 2]
            h.append(y)
            weights = p[f"layers.{n}.over.weight"]
            x = sum(w * e for w, e in zip(weights, h, strict=True))  # type: ignore[assignment]
        return x @ p["words.weight"].T

    same(
        make("""
before: |
  x = embed.words(tokens) + positions(tokens)
  h = x
layer: |
  y = x + attention(x) / layer
  h = y - 0.5 * h[layer - 2] if layer > 1 else y
  x = mix.over(h[:])
"""),
        by_hand,
    )


def test_the_end_of_a_list_of_history() -> None:
    def by_hand(p: dict[str, Tensor], given: Tensor) -> Tensor:
        x = embedded(p, given)
        past = [x]
        for at in range(1, 5):
            h = x + F.linear(x, p[f"layers.{at}.linear.weight"], p[f"layers.{at}.linear.bias"])
            x = sum(w * e for w, e in zip(p[f"layers.{at}.over.weight"], [*past[max(0, at - 2) :], h], strict=True))  # type: ignore[assignment]
            past.append(h)
        first, second = p["end.weight"]
        return (x + first * past[3] + second * past[4]) @ p["words.weight"].T

    same(
        make("""
depth: 4
before: |
  x = embed.words(tokens) + positions(tokens)
  h = x
layer: |
  h = x + linear(x, width)
  x = mix.over(h[layer - 2:])
after: x = x + mix.end(h[depth - 1:])
"""),
        by_hand,
    )


def test_definitions_taps_labels_and_coefficients() -> None:
    def by_hand(p: dict[str, Tensor], given: Tensor) -> Tensor:
        x = embedded(p, given)
        for n in (1, 2, 3):
            at = f"layers.{n}"
            u = norm(p, f"{at}.n", x)
            v = F.linear(u, p[f"{at}.attention.value.weight"], p[f"{at}.attention.value.bias"])
            x = x + p[f"{at}.gain.weight"] * attention(p, f"{at}.attention", u) - 2 * v**2
            h = F.linear(norm(p, f"{at}.n", x), p[f"{at}.inner.up.weight"], p[f"{at}.inner.up.bias"]).tanh()
            x = x + p[f"{at}.gain.weight"] * F.linear(h, p[f"{at}.inner.down.weight"], p[f"{at}.inner.down.bias"])
        return x @ p["words.weight"].T

    same(
        make("""
words:
  inner: y = linear.down(tanh(linear.up(x, 2 * width)), width)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  u = norm.n(x)
  x = x + scalar.gain(1) * attention(u) - 2 * attention.v ** 2
  x = x + scalar.gain() * inner(norm.n(x))
output: logits = unembed.words(x)
"""),
        by_hand,
    )


def test_several_outputs_and_inputs() -> None:
    model = make("""
inputs: {marks: tokens}
before: x = embed.words(tokens) + embed.types(types, rows=2) + embed.marks(marks, rows=3)
layer: x = x + mlp(x)
output: |
  logits = unembed.words(x)
  size = dot(x, x)
""")
    assert model.inputs == ["tokens", "types", "marks"]
    given = [tokens(), tokens() % 2, tokens() % 3]
    result = model(*given)
    assert list(result) == ["logits", "size"] and result["size"].shape == (2, 9, 1)
    with pytest.raises(InputError, match="types must be whole numbers"):
        model(given[0], given[1].float(), given[2])


def test_inputs_of_the_task_may_be_named() -> None:
    model = make("x = x + mlp(x)", before="x = embed.words(tokens) + embed.types(types, rows=2)")
    given = [tokens(), tokens() % 2]
    assert torch.equal(model(*given), model(types=given[1], tokens=given[0]))


def test_declared_inputs_go_by_name_everywhere() -> None:
    model = make(
        "inputs: {next: tokens}\nbefore: x = embed.words(tokens) + embed.n(next)\nlayer: x = x + mlp(x)\n"
    ).eval()
    ids, others = tokens(), tokens().flip(1)
    whole = model(tokens=ids, next=others)
    assert torch.equal(whole, model(ids, others)) and torch.equal(whole, model(ids, next=others))
    assert torch.equal(whole, model.step(ids, model.start(len(ids), 9), next=others))
    for wrong, message in (
        ({}, "given tokens, next, in this order or by name, .*; here: next left out$"),
        ({"nxt": ids}, "next left out, nxt not expected; did you mean next"),
        ({"next": others, "types": ids}, "here: types not expected"),
    ):
        with pytest.raises(InputError, match=message):
            model(ids, **wrong)
    for wrong in ({}, {"nxt": ids}):
        with pytest.raises(InputError, match="tokens and next, by name; here: (no others|nxt)"):
            model.step(ids, model.start(len(ids), 9), **wrong)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1, 2]], "tokens must be a tensor of whole numbers"),
        (torch.tensor([1, 2]), r"tokens must be \(batch, length\).*write tokens\[None\]"),
        (torch.rand(2, 3), "tokens must be whole numbers"),
        (torch.ones(2, 25, dtype=torch.long), "25 positions is longer than the table of learned positions: 24"),
    ],
)
def test_wrong_inputs_are_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("x = x + mlp(x)")(given)


def test_min_and_max_of_streams_numbers_and_coefficients() -> None:
    def by_hand(p: dict[str, Tensor], given: Tensor) -> Tensor:
        x = embedded(p, given)
        for at in ("layers.1", "layers.2", "layers.3"):
            h, g = (F.linear(x, p[f"{at}.{name}.weight"], p[f"{at}.{name}.bias"]) for name in "ab")
            v = p[f"{at}.v.weight"]
            x = x + 4 * h.clamp(-1, 0.5) + torch.where(g < v, g, v)
        return x @ p["words.weight"].T

    same(
        make("""
layer: |
  h = linear.a(x, width)
  x = x + max(min(h, 0.5), -min(1, 2, 3)) * max(4, 3) + min(linear.b(x, 1), vector.v(0.1))
"""),
        by_hand,
    )
