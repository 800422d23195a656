"""A random last token changes nothing before it, in training too (chance apart)."""

from __future__ import annotations

import pytest
import torch

from tests.invariants.harness import built, tokens
from transformula import gallery


@pytest.mark.parametrize("name", gallery.names())
def test_the_last_token_changes_nothing_before_it(name: str) -> None:
    model, one, other = built(name), tokens(4), tokens(4)
    # another token at random: a constant added to a stream would be invisible to a LayerNorm
    other[:, -1] = (one[:, -1] + torch.tensor([1, 5, 8, 13])) % 19
    with torch.no_grad():
        before, after = model(one), model(other)
        assert torch.equal(before[:, :-1], after[:, :-1])
        assert (before[:, -1] - after[:, -1]).abs().amax(-1).min() > 1e-6, "the last token is read"
        for length in range(1, one.shape[1]):
            close = torch.allclose(model(one[:, :length]), before[:, :length], rtol=1e-9, atol=1e-11)
            assert close, f"the first {length} tokens alone"


@pytest.mark.parametrize("name", gallery.names())
def test_rows_of_a_batch_do_not_see_each_other(name: str) -> None:
    model, ids = built(name), tokens(3)
    with torch.no_grad():
        together = model(ids)
        for row in range(3):
            assert torch.allclose(model(ids[row : row + 1])[0], together[row], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", gallery.names())
def test_the_past_is_read(name: str) -> None:
    """Every position depends on every one before it, unless windows are in the way."""
    model, one = built(name), tokens(2)
    other = one.clone()
    other[:, 0] = (one[:, 0] + 7) % 19
    with torch.no_grad():
        assert ((model(one) - model(other)).abs().amax(-1) > 1e-9).all()
