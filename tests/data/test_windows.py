"""Batches that go on where the last ended: rows are contiguous, nothing is predicted twice, all is a function."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformula.data.windows import ContinuedWindows
from transformula.errors import DataError

IDS = np.arange(1000, dtype=np.uint16)


@pytest.fixture
def streams() -> ContinuedWindows:
    """Six rows of 18 segments of 9 tokens: 972 of 1,000 are read in an epoch."""
    return ContinuedWindows(IDS, context=9, batch=3, accumulate=2, seed=5)


def test_rows_go_on_from_step_to_step(streams: ContinuedWindows) -> None:
    assert (streams.strip, streams.count, streams.slack) == (18, 108, 28)
    for step in range(2 * streams.strip):
        for micro in range(2):
            inputs, targets = streams.at(step, micro)
            assert inputs.shape == targets.shape == (3, 9) and torch.equal(inputs + 1, targets)
            if not streams.begins(step):
                before, _ = streams.at(step - 1, micro)
                assert torch.equal(before[:, -1] + 1, inputs[:, 0])


def test_an_epoch_predicts_no_token_twice(streams: ContinuedWindows) -> None:
    seen = []
    for epoch in range(2):
        steps = range(epoch * streams.strip, (epoch + 1) * streams.strip)
        found = torch.cat([streams.at(step, micro)[1].flatten() for step in steps for micro in range(2)])
        assert len(set(found.tolist())) == len(found) == 972
        seen.append(set(found.tolist()))
    assert seen[0] != seen[1], "other cuts in another epoch"
    assert [s for s in range(40) if streams.begins(s)] == [0, 18, 36] and streams.steps(0.5) == 9


def test_a_function_of_seed_and_step(streams: ContinuedWindows) -> None:
    again, other = (ContinuedWindows(IDS, context=9, batch=3, accumulate=2, seed=seed) for seed in (5, 6))
    assert all(torch.equal(streams.at(s, 1)[0], again.at(s, 1)[0]) for s in (20, 3, 17))
    assert any(not torch.equal(streams.at(s)[0], other.at(s)[0]) for s in (0, 20, 40))


def test_the_shortest_row_of_tokens() -> None:
    one = ContinuedWindows(IDS[:13], context=3, batch=4)
    assert one.strip == 1 and one.begins(7) and one.slack == 1
    assert sorted(torch.cat(list(one.at(2)), 1).flatten().unique().tolist()) == list(range(13))
    with pytest.raises(DataError, match="12 tokens; 4 rows that each go on.*need 13; take more text, a smaller batch"):
        ContinuedWindows(IDS[:12], context=3, batch=4)
