"""Random numbers are drawn where the text says, in training only."""

from __future__ import annotations

import pytest

from tests.invariants import checks
from tests.invariants.harness import every_day, fresh, inputs, small
from transformula import gallery


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_draws_are_those_of_the_text(name: str) -> None:
    if "policy" in small(name).hooks:
        pytest.skip("a policy may draw, too")
    checks.chance(fresh(name), inputs(name))
