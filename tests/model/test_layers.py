"""The layers alone, for invariants: their gain with silent sublayers is what the text says."""

from __future__ import annotations

import pytest
import torch

from tests.layer_runs import run_layers, zero_sublayers
from tests.model.helpers import checked, make, tokens
from transformula.errors import InputError
from transformula.model import build


def gain(text: str, **given: object) -> float:
    model = build(checked(text, **given)).double()
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    x = x / x.square().mean().sqrt()
    with zero_sublayers(model), torch.no_grad():
        left = run_layers(model, {"x": x})["x"]
    return float((left.square().mean() / x.square().mean()).sqrt())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = x + attention(norm(x))\nx = x + mlp(norm(x))", 1.0),
        ("y = x + attention(norm(x)); x = x + y + mlp(norm(y))", 2.0**12),
        ("x = norm(x)\ny = x + attention(x)\ny = norm(y)\nx = x + y + mlp(y)", 2.0),
    ],
)
def test_gain_with_silent_sublayers(text: str, wanted: float) -> None:
    assert gain(text, depth=12) == pytest.approx(wanted, rel=1e-3)


def test_silence_ends_and_covers_taps() -> None:
    model = make("u = norm(x)\nx = x + attention(u) + attention.v")
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    with zero_sublayers(model):
        assert torch.equal(run_layers(model, {"x": x})["x"], x)
    assert not torch.equal(run_layers(model, {"x": x})["x"], x)


def test_history_and_carried_names_enter_and_leave() -> None:
    model = make("h = x + mlp(x)\nx = mix(h[:])", before="x = embed.words(tokens)\nh = x", after="x = x + h", depth=2)
    x, h = (torch.randn(2, 5, 32, dtype=torch.float64) for _ in range(2))
    left = run_layers(model, {"x": x, "h": h})
    first, second = (dict(model.layers[n].named_children()) for n in "12")
    h_1 = x + first["mlp"](x)
    x_1 = first["mlp_sum_mix"](h, h_1)
    h_2 = x_1 + second["mlp"](x_1)
    assert set(left) == {"x", "h"}
    torch.testing.assert_close(left["h"], h_2)
    torch.testing.assert_close(left["x"], second["mlp_sum_mix"](h, h_1, h_2))
    with pytest.raises(InputError, match=r"layer 1 reads h\[0\], which was not given"):
        run_layers(model, {"x": x})


def test_training_goes_on_as_before() -> None:
    model = make("x = x + dropout(mlp(x), 0.5)").train()
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    assert torch.equal(run_layers(model, {"x": x})["x"], run_layers(model, {"x": x})["x"])
    assert model.training and model.layers["1"].training


def test_flops_a_token_are_those_of_the_accounting() -> None:
    model = make("x = x + mlp(x)", depth=2)
    assert model.flops_per_unit() == model.flops_per_token() == 3 * (2 * (2 * 32 * 128 * 2) + 2 * 32 * 11)
    assert model(tokens()).shape == (2, 9, 11)
