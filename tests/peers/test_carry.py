"""The comparison itself: it sees a wrong formula, a wrong mapping and whatever is left over."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.peers.carry import (
    Theirs,
    by_heads,
    carry,
    difference,
    gradients,
    halves_of_pairs,
    in_double,
    randomize,
    thirds,
)
from tests.peers.case import Case, Pair, cases
from transformula import gallery


def changed(name: str, **changes: object) -> Case:
    """A case whose pair is changed."""
    case = cases()[name]
    return replace(case, entry="", make=lambda: replace(case.make(), **changes))


def test_a_formula_that_is_almost_right_is_seen() -> None:
    """GELU itself in the place of GPT-2's approximation of it; another eps; positions from 1."""
    source = gallery.entry("gpt2").source
    for old, new in (
        (', activation="gelu_tanh"', ""),
        ("layer: |", "words:\n  norm: x = layernorm(x, eps=1e-6)\nlayer: |"),
        ("positions(tokens)", "positions(tokens, first=1)"),
    ):
        assert old in source
        measured = changed("gpt2", text=source.replace(old, new)).compare()
        assert measured.whole > 1e-7 and measured.decoding > 1e-7


def test_queries_and_keys_swapped_are_seen() -> None:
    def swapped(theirs: Theirs):
        for name, leaf in cases()["gpt2"].make().weights(theirs):
            names = {"query": "key", "key": "query"}
            begin, _, end = name.rpartition(".")
            yield f"{begin}.{names.get(end, end)}" if begin else name, leaf

    assert changed("gpt2", weights=swapped).compare().whole > 1e-3


STOPPED = [
    ("x-shrunk-embedding", "stop_gradient(x)"),
    ("x-hard-attention", "stop_gradient(w)"),
    ("x-sparse-straight-through", "stop_gradient(q)"),
    ("ovis2-vision", "stop_gradient(s)"),
    ("apertus", "stop_gradient(scalar.beta(0.5))"),
]


@pytest.mark.parametrize(("name", "stopped"), STOPPED)
def test_a_gradient_that_flows_where_none_does_is_seen(name: str, stopped: str) -> None:
    """And only in gradients: one pass is the same."""
    text = cases()[name].make().text
    assert stopped in text
    measured = changed(name, text=text.replace(stopped, stopped.removeprefix("stop_gradient"))).compare()
    assert measured.whole < 1e-9 and measured.gradients > 1e-2


def test_gradients_are_led_back_through_what_was_done_to_the_weights() -> None:
    """Scaled, shifted and cut, given to two modules, or to none that learns; a row of padding is not asked."""
    theirs, ours = torch.nn.Embedding(4, 2, padding_idx=1), torch.nn.Module()
    for name, count in {"a": 4, "b": 3, "c": 1}.items():
        ours.add_module(name, torch.nn.Embedding(count, 2))
    randomize(theirs), randomize(ours)

    def weights(given: Theirs):
        yield "a.weight", 3 * given["weight"] + 1
        yield "b.weight", given["weight"][1:]
        yield "c.weight", torch.ones(1, 2)

    a, b, c = (module.weight for module in (ours.a, ours.b, ours.c))
    a.grad, b.grad, c.grad = torch.randn(4, 2), torch.randn(3, 2), torch.zeros(1, 2)
    expected = 3 * a.grad
    expected[1:] += b.grad
    theirs.weight.grad = expected.clone()
    expected[1] = 0
    led, have = gradients(ours, theirs, weights, still=("c.weight",))
    assert torch.equal(have, torch.cat((expected.flatten(), torch.zeros(2))))
    torch.testing.assert_close(led, have)
    c.grad += 1
    led, have = gradients(ours, theirs, weights, still=("c.weight",))
    assert (led - have)[-2:].tolist() == [1, 1]


def test_what_is_left_over_fails() -> None:
    pair: Pair = cases()["gpt2"].make()

    def without(theirs: Theirs):
        return [item for item in pair.weights(theirs) if item[0] != "after.norm"]

    def forgotten(theirs: Theirs):
        read = [(name, dict(leaf)) for name, leaf in pair.weights(theirs)]
        return [item for item in read if item[0] != "after.norm"]

    with pytest.raises(AssertionError, match=r"parameters of the reference that nothing used.*ln_f"):
        changed("gpt2", weights=without).compare()
    with pytest.raises(AssertionError, match=r"ours, not given: \['after.norm.bias', 'after.norm.weight'\]"):
        changed("gpt2", weights=forgotten).compare()


def test_a_shape_that_does_not_fit_fails() -> None:
    ours, theirs = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)
    with pytest.raises(AssertionError, match=r"weight: \(2, 3\) for \(3, 2\)"):
        carry(ours, theirs, lambda leaf: [("weight", leaf["weight"]), ("bias", leaf["bias"])])


def test_rows_by_heads() -> None:
    rows = torch.arange(12.0)
    assert [leaf["bias"].tolist() for leaf in by_heads({"bias": rows}, 2, (1, 1, 1), 2)] == [
        [0, 1, 6, 7],
        [2, 3, 8, 9],
        [4, 5, 10, 11],
    ]
    assert by_heads({"bias": rows}, 1, (4, 1, 1), 2)[1]["bias"].tolist() == [8, 9]
    assert thirds({"bias": rows})[1]["bias"].tolist() == [4, 5, 6, 7]
    assert halves_of_pairs({"bias": rows[:8]}, 2)["bias"].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_randomised_means_every_parameter() -> None:
    module = randomize(torch.nn.LayerNorm(5, dtype=torch.float64))
    assert len(set(module.weight.tolist())) == 5 and 0 not in module.bias.tolist()


def test_within_it_float32_is_float64_and_afterwards_not() -> None:
    with in_double():
        assert torch.ones(1).to(torch.float32).dtype == torch.zeros(1).float().dtype == torch.float64
    assert torch.ones(1).dtype == torch.zeros(1, dtype=torch.float64).float().dtype == torch.float32


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_nothing_to_compare_is_no_agreement(value: float) -> None:
    made = torch.full((2, 3), value, dtype=torch.float64)
    with pytest.raises(AssertionError):
        difference(made, made)
