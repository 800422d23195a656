"""Step-by-step decoding is one pass over the whole: single steps, chunks, prompts of different lengths in one batch."""

from __future__ import annotations

import pytest

from tests.invariants import checks
from tests.invariants.harness import CAUSAL, built, inputs
from transformula.errors import InputError


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_and_chunks(name: str) -> None:
    checks.steps(built(name), inputs(name))


@pytest.mark.parametrize("name", CAUSAL)
def test_prompts_of_different_lengths(name: str) -> None:
    checks.prompts(built(name), inputs(name, 3))


@pytest.mark.parametrize("name", CAUSAL)
def test_rows_that_come_and_go(name: str) -> None:
    model = built(name)
    if model.given_at_start:
        with pytest.raises(InputError, match="cannot be put into another decoding"):
            decodings = [model.start(1, 4, **checks.fixed(model, inputs(name, 1))) for _ in range(2)]
            decodings[0].put([0], decodings[1], [0])
    else:
        checks.rows_that_come_and_go(model, inputs(name, 3))
