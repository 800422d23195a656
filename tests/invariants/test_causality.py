"""A random last token changes nothing before it, in training too (chance apart)."""

from __future__ import annotations

import pytest
import torch

from tests.invariants.harness import CAUSAL, built, chunk_of, fixed_inputs, inputs, outputs
from transformula import gallery


@pytest.mark.parametrize("name", CAUSAL)
def test_the_last_token_changes_nothing_before_it(name: str) -> None:
    model, given = built(name), inputs(name, 4)
    one = given["tokens"]
    # another token at random: a constant added to a stream would be invisible to a LayerNorm
    other = {**given, "tokens": torch.cat([one[:, :-1], (one[:, -1:] + torch.tensor([[1], [5], [8], [13]])) % 19], 1)}
    with torch.no_grad():
        before, after = model(**given), model(**other)
        assert torch.equal(before[:, :-1], after[:, :-1])
        assert (before[:, -1] - after[:, -1]).abs().amax(-1).min() > 1e-6, "the last token is read"
        for length in range(1, one.shape[1]):
            first = model(**fixed_inputs(name, given), **chunk_of(name, given, 0, length))
            assert torch.allclose(first, before[:, :length], rtol=1e-9, atol=1e-11), f"the first {length} tokens alone"


@pytest.mark.parametrize("name", gallery.names())
def test_rows_of_a_batch_do_not_see_each_other(name: str) -> None:
    model, given = built(name), inputs(name, 3)
    with torch.no_grad():
        together = outputs(model(**given))
        for row in range(3):
            single = outputs(model(**{key: value[row : row + 1] for key, value in given.items()}))
            for one, all_rows in zip(single, together, strict=True):
                assert torch.allclose(one[0], all_rows[row], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", CAUSAL)
def test_the_past_is_read(name: str) -> None:
    """Every position depends on every one before it, unless windows are in the way."""
    model, given = built(name), inputs(name)
    one = given["tokens"]
    other = {**given, "tokens": torch.cat([(one[:, :1] + 7) % 19, one[:, 1:]], 1)}
    with torch.no_grad():
        assert ((model(**given) - model(**other)).abs().amax(-1) > 1e-9).all()


@pytest.mark.parametrize("name", [n for n in gallery.names() if n not in CAUSAL])
def test_all_is_read_where_all_is_seen(name: str) -> None:
    """Of a stack that sees everything, every output depends on the first and on the last position."""
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
