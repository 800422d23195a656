"""Every entry equals its equation by hand: random weights, float64, 1e-9."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.invariants.harness import REFERENCES, built, close, inputs, outputs, reference, single
from tests.references.plain import Parameters
from transformula import gallery


@pytest.mark.parametrize("name", gallery.names())
def test_the_equation_by_hand(name: str) -> None:
    by_hand, model, given = reference(name), built(name), inputs(name)
    parameters = Parameters(dict(model.state_dict()))
    with torch.no_grad():
        close(model(**given), by_hand(parameters, alone(given), model.architecture.numbers))
    assert not parameters.unread(), "parameters that the equation does not have"


@pytest.mark.parametrize("name", gallery.names())
def test_float32_is_close_to_it(name: str) -> None:
    model, given = built(name, torch.float32), inputs(name)
    parameters = Parameters({key: value.double() for key, value in model.state_dict().items()})
    with torch.no_grad():
        made, expected = model(**single(given)), reference(name)(parameters, alone(given), model.architecture.numbers)
        for one, other in zip(outputs(made), outputs(expected), strict=True):
            close(one.double(), other, 2e-4)


def alone(given: dict[str, torch.Tensor]) -> Any:
    """What a reference is given: the tokens, or a mapping where there are other inputs."""
    return given["tokens"] if set(given) == {"tokens"} else given


def test_no_reference_is_left_over() -> None:
    known = {name.replace("-", "_") for name in gallery.names()} | {"plain"}
    assert {path.stem for path in REFERENCES.glob("*.py")} == known


def test_references_use_nothing_of_ours() -> None:
    for path in REFERENCES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "transformula" not in text and "torch.nn" not in text, path.name
