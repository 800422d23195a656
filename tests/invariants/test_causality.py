"""A random last token changes nothing before it, in training too (chance apart)."""

from __future__ import annotations

import pytest
import torch

from tests.invariants import checks
from tests.invariants.harness import CAUSAL, built, inputs, inputs_read, outputs
from transformula import gallery


@pytest.mark.parametrize("name", CAUSAL)
def test_the_last_token_changes_nothing_before_it(name: str) -> None:
    checks.last_token(built(name), inputs(name, 4))


@pytest.mark.parametrize("name", gallery.names())
def test_rows_of_a_batch_do_not_see_each_other(name: str) -> None:
    checks.rows_alone(built(name), inputs(name, 3))


@pytest.mark.parametrize("name", CAUSAL)
def test_the_past_is_read(name: str) -> None:
    checks.past_is_read(built(name), inputs(name))


@pytest.mark.parametrize("name", [n for n in gallery.names() if n not in CAUSAL and "rank" not in inputs_read(n)])
def test_all_is_read_where_all_is_seen(name: str) -> None:
    """Of a stack that sees everything, every output depends on the first and on the last position; where the order is
    a permutation (`rank`), only on what ranks before."""
    model, given = built(name), inputs(name)
    with torch.no_grad():
        before = outputs(model(**given))
        for key, value in given.items():
            if value.is_floating_point() or key in ("tokens", "source"):
                for place in (0, -1):
                    other = value.clone()
                    other[..., place] = (
                        other[..., place] + 1 if value.is_floating_point() else (other[..., place] + 7) % 19
                    )
                    after = outputs(model(**{**given, key: other}))
                    assert any(((a - b).abs().amax(-1) > 1e-9).all() for a, b in zip(before, after, strict=True)), key
