"""Ours equals published code of others: the same random weights, float64."""

from __future__ import annotations

import pytest

from tests.peers.case import TOLERANCE, cases
from tests.portions import every_third


@pytest.mark.parametrize("name", every_third(cases()))
def test_equals_the_reference(name: str) -> None:
    """One pass, decoding in chunks against theirs, and gradients; `carry` has asked that all parameters were used."""
    measured = cases()[name].compare()
    assert measured.whole <= TOLERANCE and measured.gradients <= TOLERANCE
    assert measured.decoding is None or measured.decoding <= TOLERANCE
