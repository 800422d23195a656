"""Step-by-step decoding is one pass over the whole: single steps, chunks, prompts of different lengths in one batch."""

from __future__ import annotations

import pytest

from tests.invariants import checks
from tests.invariants.harness import CAUSAL, built, inputs


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_and_chunks(name: str) -> None:
    checks.steps(built(name), inputs(name))


@pytest.mark.parametrize("name", CAUSAL)
def test_prompts_of_different_lengths(name: str) -> None:
    checks.prompts(built(name), inputs(name, 3))
