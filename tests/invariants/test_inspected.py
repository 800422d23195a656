"""Every entry can be looked into: the lens ends at the model itself, maps sum to one, each sublayer can be silenced."""

from __future__ import annotations

import math

import pytest
import torch

from tests.invariants.harness import built, inputs, loss_of
from transformula import gallery
from transformula.errors import InputError
from transformula.inspection.ablation import ablate, candidates
from transformula.inspection.attention import attention, attention_calls
from transformula.inspection.collapse import collapse
from transformula.inspection.gradients import gradients
from transformula.inspection.lens import lens
from transformula.inspection.norms import norms

SAMPLE = ["unet", "mhc"]


@pytest.mark.parametrize(
    "name", [one if one in SAMPLE else pytest.param(one, marks=pytest.mark.slow) for one in gallery.names()]
)
def test_every_look(name: str) -> None:
    model, row = built(name, deep=False), inputs(name, batch=1)
    try:
        attention_calls(model.architecture)
    except InputError as error:
        assert "no attention maps" in str(error)
    else:
        look = attention(model, [row])
        for weights, call in zip(look.maps, look.calls, strict=True):
            assert name == "retnet" or weights.min() >= 0 and weights.sum(-1).max() < 1 + 1e-5, call.place
    for stack in model.architecture.stacks:
        depths = lens(model, [row], stack=stack.name).depths
        assert depths[-1].kl == 0 and depths[-1].agreement == 1
        assert all(math.isfinite(each.kl) and each.kl >= -1e-12 for each in depths)
    assert all(
        value is None or math.isfinite(value)
        for stack in norms(model, [row]).stacks
        for values in (*stack.streams.values(), *stack.ratios.values())
        for value in values
    )
    assert gradients(model, lambda view: loss_of(view(**row))).parameters["all"]
    assert collapse(model, [row]).similarity

    def losses(module: torch.nn.Module) -> tuple[list[float], list[float]]:
        with torch.no_grad():
            return [float(loss_of(module(**row)))], [1.0]

    if candidates(model.architecture):
        silenced = ablate(model, losses, [row], instead="mean").places
        assert all(math.isfinite(each.change) for each in silenced) and any(each.change for each in silenced)
