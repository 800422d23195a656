"""after_step: unit_rows: vectors of the stream's width have norm 1, others are left alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from tests.model.helpers import checked
from transformula import gallery
from transformula.errors import InputError
from transformula.language.check import check
from transformula.model import Transformer, build
from transformula.model.hook import hook_of
from transformula.words import vocabulary

NORMED = """
words:
  attention(x): |
    q = vector.s(1) * l2norm(rotary(linear.query(x, width)), size=width // heads)
    k = vector.s() * l2norm(rotary(linear.key(x, width)), size=width // heads)
    y = linear.output(dot_attention(q, k, linear.value(x, width, bias=False)), width)
before: x = l2norm(embed(tokens))
layer: |
  x = l2norm(x + abs(vector(0.05)) * (l2norm(attention(x)) - x))
  x = l2norm(x + abs(vector(0.05)) * (l2norm(mlp(x)) - x))
  x = x + lowrank(x, 3)
output: logits = unembed(x)
"""


def with_hook(text: str, hook: str = "unit_rows") -> tuple[Transformer, partial[Any]]:
    model = build(checked(text, after_step=hook))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    found = hook_of(model.architecture, "after_step")
    assert found is not None
    return model, found


def norms(model: Transformer, name: str, along: int) -> torch.Tensor:
    return torch.linalg.vector_norm(model.get_parameter(name), dim=along)


def test_rows_and_columns_of_the_width_have_norm_1() -> None:
    model, step = with_hook(NORMED)
    biases = {n: p.clone() for n, p in model.named_parameters() if p.dim() < 2}
    step(model)
    reading = ["attention.query", "attention.key", "attention.value", "mlp.up"]
    writing = ["attention.output", "mlp.down"]
    for layer in (1, 3):
        for names, along in ((reading, 1), (writing, 0)):
            for name in names:
                found = norms(model, f"layers.{layer}.{name}.weight", along)
                torch.testing.assert_close(found, torch.ones_like(found), rtol=1e-6, atol=1e-6)
    for name in ("before.embed.weight", "output.unembed.weight"):
        torch.testing.assert_close(norms(model, name, 1), torch.ones(11), rtol=1e-6, atol=1e-6)
    for name, before in biases.items():
        assert torch.equal(before, model.get_parameter(name))


def test_it_is_a_projection() -> None:
    model, step = with_hook(NORMED)
    step(model)
    before = {n: p.clone() for n, p in model.named_parameters()}
    step(model)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, before[name], rtol=1e-6, atol=1e-7)


def test_a_row_of_zeros_stays_and_no_gradient_is_recorded() -> None:
    model, step = with_hook("x = x + mlp(x)")
    weight = model.get_parameter("layers.1.mlp.up.weight")
    with torch.no_grad():
        weight[0] = 0
    step(model)
    assert torch.equal(weight[0], torch.zeros_like(weight[0])) and weight.is_leaf and weight.grad_fn is None


def test_which_square_matrices_write_can_be_said() -> None:
    text = "x = x + linear.last(relu(linear.first(x, width)), width)"
    model, step = with_hook(text, "unit_rows(columns='*.last.weight')")
    step(model)
    for name, along in (("first", 1), ("last", 0)):
        torch.testing.assert_close(norms(model, f"layers.2.{name}.weight", along), torch.ones(32))
    model, step = with_hook(text)
    step(model)
    torch.testing.assert_close(norms(model, "layers.2.last.weight", 1), torch.ones(32))


def test_patterns_are_strings() -> None:
    with pytest.raises(InputError, match="columns is 3, and must be patterns"):
        with_hook("x = x + mlp(x)", "unit_rows(3)")


def test_initial_values_have_norm_1_already() -> None:
    model = build(checked("x = x + mlp(x)", after_step="unit_rows"))
    torch.testing.assert_close(norms(model, "layers.2.mlp.up.weight", 1), torch.ones(128))
    build(checked("x = x + mlp(x)", after_step="unit_rows"), device="meta")
    for dtype in (torch.float64, torch.bfloat16):
        model = build(checked("x = x + mlp(x)", after_step="unit_rows"), dtype=dtype)
        torch.testing.assert_close(norms(model, "words.weight", 1).float(), torch.ones(11), rtol=1e-2, atol=1e-2)


def test_ngpt_starts_as_published() -> None:
    """Scales are kept at 1 / sqrt(width), their values are 1 and 0.05; every matrix is on the sphere."""
    model = build(check(gallery.load("ngpt"), vocabulary(), {"depth": 1, "width": 64, "heads": 4, "vocab": 11}))
    scales = ("layers.1.attention.s", "layers.1.rate_a", "layers.1.rate_m", "output.unembed_output_vector")
    for path, value in zip(scales, (1, 0.05, 0.05, 1), strict=True):
        made = model.get_submodule(path)()
        torch.testing.assert_close(model.get_parameter(f"{path}.weight"), torch.full_like(made, 1 / 8))
        torch.testing.assert_close(made, torch.full_like(made, value))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            found = torch.linalg.vector_norm(parameter, dim=0 if "output.weight" in name or "down" in name else 1)
            torch.testing.assert_close(found, torch.ones_like(found), rtol=1e-6, atol=1e-6)
