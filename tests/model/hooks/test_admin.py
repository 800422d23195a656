"""calibrate: admin: factors are the roots of the running sums of variances, measured in one pass."""

from __future__ import annotations

import math

import pytest
import torch

from tests.model.helpers import checked, tokens
from transformula.errors import InputError
from transformula.model import Transformer, build
from transformula.model.hook import hook_of

ADMIN = """
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = norm(vector(1) * x + attention(x))
  x = norm(mlp(x) + x * vector(1, stored=2))
output: logits = unembed.words(x)
"""


def calibrated(text: str = ADMIN, passes: int = 1) -> tuple[Transformer, str, int]:
    model = build(checked(text, calibrate="admin"), seed=1)
    found = hook_of(model.architecture, "calibrate")
    assert found is not None
    count = 0

    def run() -> None:
        nonlocal count
        count += 1
        model(tokens(4, 12))

    said = ""
    for _ in range(passes):
        said = found(model.train(), run)
    return model, said, count


def factors(model: Transformer) -> list[float]:
    """The factors, in order; every channel has the same."""
    found = []
    for layer in (1, 2, 3):
        for name in ("vector", "vector_2"):
            word = model.get_submodule(f"layers.{layer}.{name}")
            assert word.weight.std() == 0
            found.append(word().mean().item())
    return found


def test_factors_are_roots_of_running_sums() -> None:
    """Measured again by hand, sublayer by sublayer, in the calibrated model."""
    model, said, count = calibrated()
    made = factors(model)
    assert count == 1 and made[0] == 1 and f"{made[-1]:.3g}" in said and "6 factors" in said
    with torch.no_grad():
        ids = tokens(4, 12)
        x = model.get_parameter("words.weight")[ids] + model.get_parameter("before.positions.weight")[:12]
        total = x.var(correction=0).item()
        expected = [1.0]
        for layer in (1, 2, 3):
            at = model.layers[str(layer)]
            for factor, branch, norm in (
                (at.vector, at.attention, at.attention_sum_norm),
                (at.vector_2, at.mlp, at.mlp_sum_norm),
            ):
                made_here = branch(x)
                expected.append(math.sqrt((factor() * x).var(correction=0).item() + made_here.var(correction=0).item()))
                total += made_here.var(correction=0).item()
                x = norm(factor() * x + made_here)
    assert made == pytest.approx(expected[:-1], rel=1e-5)
    assert expected[-1] == pytest.approx(math.sqrt(total), rel=1e-3), "norms leave a variance of 1, their eps apart"


def test_branches_that_are_larger_weigh_less() -> None:
    """The point of it: after it the skip's share of every sum is that of all that came before."""
    model, _, _ = calibrated()
    made = factors(model)
    assert all(later > earlier for earlier, later in zip(made[1:], made[2:], strict=False))


def test_it_gives_the_same_twice_and_leaves_nothing_behind() -> None:
    model, _, _ = calibrated()
    again, _, count = calibrated(passes=2)
    assert count == 2 and factors(model) == pytest.approx(factors(again))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("x = x + mlp(norm(x))", "found no factor to set"),
        ("x = norm(scalar(1) * x + mlp(x))", "found no factor to set"),
        ("x = norm(vector.v(1) * x + mlp(x))\nx = norm(vector.v() * x + mlp(x))", "several sublayers; give each"),
        ("x = norm(vector(1) * norm(vector(1) * x + mlp(x)) + mlp(x))", "a line of its own"),
    ],
)
def test_what_it_cannot_set(layer: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrated(layer)


def test_no_pass_is_an_error() -> None:
    model = build(checked(ADMIN, calibrate="admin"))
    found = hook_of(model.architecture, "calibrate")
    assert found is not None
    with pytest.raises(InputError, match="did not reach layers.1.vector"):
        found(model, lambda: None)


def test_calibrate_of_the_model_does_it() -> None:
    by_hand, said, _ = calibrated()
    model = build(checked(ADMIN, calibrate="admin"), seed=1).eval()
    assert model.calibrate(tokens(4, 12)) == said and not model.training
    assert factors(model) == factors(by_hand)
    assert build(checked(ADMIN)).calibrate(tokens()) == ""


def test_each_stack_begins_with_1() -> None:
    layer = "x = norm(vector(1) * x + attention(x))"
    text = f"""
one:
  depth: 2
  before: x = embed.words(tokens)
  layer: {layer}
two:
  depth: 2
  before: x = one
  layer: {layer}
calibrate: admin
"""
    model = build(checked(text))
    assert "4 factors on the skip: 1 to" in model.calibrate(tokens())
    assert all(model.get_submodule(f"{stack}.layers.1.vector")().eq(1).all() for stack in ("one", "two"))
    assert not model.get_submodule("two.layers.2.vector")().eq(1).any()
