"""Initial values: each parameter's own stream of random numbers; the `init` hook."""

from __future__ import annotations

import pytest
import torch

from tests.model.helpers import checked
from transformula.errors import InputError
from transformula.model import Transformer, build

GPT2 = """
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
init: {"*.weight": 0.02, "*.attention.output.weight|*.mlp.down.weight": 0.02 / sqrt(2 * depth)}
"""

T_FIXUP = """
layer: |
  x = x + attention(x)
  x = x + mlp(x)
init:
  "*.query.weight|*.key.weight": gain 1
  "*.value.weight|*.output.weight|*.mlp.*": gain 0.67 * depth ** (-1 / 4)
  "words.weight|before.positions.weight": width ** (-1 / 2) * 0.67 * depth ** (-1 / 4)
"""


def deviations(model: Transformer) -> dict[str, float]:
    return {n: p.std().item() for n, p in model.named_parameters() if p.dim() > 1}


def test_values_depend_on_the_seed_and_the_name_only() -> None:
    first = dict(build(checked("x = x + attention(norm(x)) + mlp(x)")).named_parameters())
    other = dict(build(checked("x = mlp(x) + tanh(x)\nx = x + attention(x)", depth=2)).named_parameters())
    for name in ("layers.1.attention.query.weight", "layers.2.mlp.up.weight", "words.weight"):
        assert torch.equal(first[name], other[name])
    again = dict(build(checked("x = x + attention(norm(x)) + mlp(x)"), seed=1).named_parameters())
    assert not torch.equal(first["words.weight"], again["words.weight"])
    assert not torch.equal(first["layers.1.mlp.up.weight"], first["layers.2.mlp.up.weight"])


def test_values_do_not_depend_on_what_was_drawn_before() -> None:
    torch.manual_seed(3)
    first = build(checked("x = x + mlp(x)"))
    state = torch.random.get_rng_state()
    second = build(checked("x = x + mlp(x)"))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_gpt2() -> None:
    made = deviations(build(checked(GPT2, width=128, depth=8)))
    assert made["layers.1.mlp.up.weight"] == pytest.approx(0.02, rel=0.05)
    assert made["words.weight"] == pytest.approx(0.02, rel=0.05)
    for name in ("attention.output", "mlp.down"):
        assert made[f"layers.8.{name}.weight"] == pytest.approx(0.005, rel=0.05)


def test_gain_is_xavier_times_it() -> None:
    made = deviations(build(checked(T_FIXUP, width=128, depth=4)))
    gain = 0.67 * 4**-0.25
    assert made["layers.2.attention.key.weight"] == pytest.approx((2 / 256) ** 0.5, rel=0.05)
    assert made["layers.2.attention.value.weight"] == pytest.approx(gain * (2 / 256) ** 0.5, rel=0.05)
    assert made["layers.4.mlp.up.weight"] == pytest.approx(gain * (2 / (128 + 512)) ** 0.5, rel=0.05)
    assert made["words.weight"] == pytest.approx(128**-0.5 * gain, rel=0.05)


def test_gain_of_experts_is_that_of_one_matrix() -> None:
    text = "x = x + experts(x, n=16, hidden=64)"
    made = deviations(build(checked(text, width=32, depth=1, init={"*.experts.*": "gain 1"})))
    for name in ("up", "down"):
        assert made[f"layers.1.experts.{name}.weight"] == pytest.approx((2 / (32 + 64)) ** 0.5, rel=0.05)
    assert made["layers.1.experts.router.weight"] == pytest.approx((2 / (32 + 16)) ** 0.5, rel=0.15)


def test_only_matrices_are_drawn() -> None:
    model = build(checked(GPT2))
    norm = model.layers["1"].attention_input_norm
    assert (norm.weight == 1).all() and (norm.bias == 0).all() and (model.layers["1"].mlp.up.bias == 0).all()


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ({"*.atention.*": 0.02}, r"'\*.atention.\*' matches nothing.*did you mean.*attention"),
        ({"*.weight|*.query.weigth": 0.02}, "'.*query.weigth' matches nothing"),
        ({"*.bias": 0.02}, "matches no matrix"),
        ({"*": "0.02 * dept"}, "depth"),
        ({"*": -1}, "not negative"),
        ({"*": "gain"}, "gain"),
        ("gpt2", "must be a mapping"),
    ],
)
def test_mistakes_in_the_hook(init: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(checked("x = x + attention(norm(x))", init=init))


def test_the_dtype_does_not_change_what_is_drawn() -> None:
    first = build(checked(GPT2)).double()
    second = build(checked(GPT2), dtype=torch.float64)
    assert all(p.dtype == torch.float64 for p in second.parameters())
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=1e-6, atol=1e-9)


DECAYS = """
layer: "x = x + scan(x, -exp(vector.rate(0)) * softplus(linear.step(x, width)))"
init: {"*.rate.weight": log(c + 1), "*.step.bias": -4 + c % 3}
"""


def test_a_value_that_reads_the_channel_is_that_of_each_channel_of_a_vector() -> None:
    named = dict(build(checked(DECAYS, width=8, depth=2)).named_parameters())
    for layer in (1, 2):
        torch.testing.assert_close(named[f"layers.{layer}.rate.weight"].detach(), torch.arange(1, 9).log())
        assert named[f"layers.{layer}.step.bias"].tolist() == [-4, -3, -2, -4, -3, -2, -4, -3]


def test_values_by_channel_are_those_of_vectors() -> None:
    with pytest.raises(InputError, match="matches no vector, only such as layers.1.step.weight"):
        build(checked(DECAYS.replace("*.step.bias", "*.step.weight")))
