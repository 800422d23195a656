"""Every entry equals its equation by hand: random weights, float64, 1e-9."""

from __future__ import annotations

import pytest
import torch

from tests.invariants import checks
from tests.invariants.harness import REFERENCES, built, every_day, inputs, reference
from transformula import gallery


@pytest.mark.parametrize("name", gallery.names())
def test_the_equation_by_hand(name: str) -> None:
    checks.equation(built(name), reference(name), inputs(name))


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_float32_is_close_to_it(name: str) -> None:
    checks.equation(built(name, torch.float32), reference(name), inputs(name), 2e-4)


def test_no_reference_is_left_over() -> None:
    known = {name.replace("-", "_") for name in gallery.names()} | {"plain"}
    assert {path.stem for path in REFERENCES.glob("*.py")} == known


def test_references_use_nothing_of_ours() -> None:
    for path in REFERENCES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "transformula" not in text and "torch.nn" not in text, path.name
