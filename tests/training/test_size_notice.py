"""A model that is too large for the minutes of its run is told of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.training.toy import ToyModel, ToyTask
from transformula import Model
from transformula.training import size_notice
from transformula.training.settings import TrainingSettings
from transformula.training.state import flops_per_unit

CPU = torch.device("cpu")


def said(model: Any, each: float, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> str:
    """The line for a machine on which a run of one minute sees `each` tokens a parameter."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    speed = each * parameters * flops_per_unit(model) / (60 * size_notice.SHARE_OF_PEAK)
    monkeypatch.setattr(size_notice, "peak", lambda device, precision: speed)
    return size_notice.line_of_size(ToyTask(), model, TrainingSettings(**settings), CPU)


def test_few_tokens_a_parameter_are_said_with_a_smaller_width(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("pre-norm", depth=1, width=64, heads=2, vocab=100, context=32).module
    line = said(model, 0.1, monkeypatch, minutes=1)
    assert line.startswith("1 min 0 s here are about ")
    assert "tokens, 0.1 for each parameter" in line and "a smaller model (width=32) probably" in line
    assert not said(model, 1.0, monkeypatch, minutes=1)


def test_a_model_without_a_width_is_told_of_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    line = said(ToyModel(), 0.1, monkeypatch, minutes=1)
    assert "a smaller model probably learns more" in line


@pytest.mark.parametrize("limits", [{"steps": 10}, {"minutes": 1, "steps": 10}, {"minutes": 1, "tokens": 1000}])
def test_a_run_with_another_limit_is_not_told(limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not said(ToyModel(), 0.01, monkeypatch, **limits)
