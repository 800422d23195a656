"""A view of a model that evaluates, and the model, which stays as it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.model.helpers import checked, make, tokens
from transformula.model import build
from transformula.model.transformer import evaluating

FORMULA = "x = x + dropout(attention(norm(x), dropout=0.5), 0.5)\nx = x + dropout(mlp(norm(x)), 0.5)"
FACES = "x = x + attention.a(norm(x), window=1 + layer, dropout=0.5, share=1)"


@pytest.mark.parametrize("text", [FORMULA, FACES])
def test_a_view_computes_what_the_model_does_evaluating(text: str) -> None:
    model = make(text)
    wanted = model(tokens())
    model.train()
    modes = {name: module.training for name, module in model.named_modules()}
    view = evaluating(model)
    assert not torch.equal(model(tokens()), wanted), "dropout is active in the model"
    assert torch.equal(view(tokens()), wanted)
    assert torch.equal(view.step(tokens(), view.start(2, 9)), wanted)
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert not any(module.training for module in view.modules())
    model.train(False)
    view.train()
    assert not any(module.training for module in model.modules())


def test_weights_hooks_and_devices_are_the_models_own() -> None:
    model = make(FORMULA)
    view = evaluating(model)
    assert [id(p) for p in view.parameters()] == [id(p) for p in model.parameters()]
    model.float()
    assert view(tokens()).dtype == torch.float32
    calls: list[nn.Module] = []
    model.layers["1"].mlp.register_forward_hook(lambda module, *_: calls.append(module))
    view(tokens())
    assert len(calls) == 1


def test_what_a_pass_leaves_behind_stays_in_the_view() -> None:
    model = build(checked("x = x + experts(x, n=3, active=2)"))
    view = evaluating(model)
    view.train()
    view(tokens())
    assert view.named_losses() and not model.named_losses()


def test_a_compiled_layer_does_not_bring_its_mode() -> None:
    model = make(FORMULA)
    wanted = model(tokens())
    model.train()
    model.layers["1"]._compiled_call_impl = model.layers["2"].forward  # what `compile` sets: a call of the layer's own
    assert torch.equal(evaluating(model)(tokens()), wanted)


def test_what_is_no_module_is_returned() -> None:
    thing = object()
    assert evaluating(thing) is thing
