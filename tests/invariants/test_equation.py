"""Every entry equals its equation by hand: random weights, float64, 1e-9."""

from __future__ import annotations

import pytest
import torch

from tests.invariants.harness import REFERENCES, built, close, reference, tokens
from tests.references.plain import Parameters
from transformula import gallery


@pytest.mark.parametrize("name", gallery.names())
def test_the_equation_by_hand(name: str) -> None:
    by_hand, model, ids = reference(name), built(name), tokens()
    parameters = Parameters(dict(model.state_dict()))
    with torch.no_grad():
        close(model(ids), by_hand(parameters, ids, model.architecture.numbers))
    assert not parameters.unread(), "parameters that the equation does not have"


@pytest.mark.parametrize("name", gallery.names())
def test_float32_is_close_to_it(name: str) -> None:
    model, ids = built(name, torch.float32), tokens()
    parameters = Parameters({key: value.double() for key, value in model.state_dict().items()})
    with torch.no_grad():
        close(model(ids).double(), reference(name)(parameters, ids, model.architecture.numbers), 2e-4)


def test_no_reference_is_left_over() -> None:
    known = {name.replace("-", "_") for name in gallery.names()} | {"plain"}
    assert {path.stem for path in REFERENCES.glob("*.py")} == known


def test_references_use_nothing_of_ours() -> None:
    for path in REFERENCES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "transformula" not in text and "torch.nn" not in text, path.name
