"""The keyed permutation, and windows drawn in its order."""

import numpy as np
import pytest
import torch

from transformula.data.windows import Permutation, Windows, key
from transformula.errors import DataError


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 65_537])
def test_a_permutation(size):
    order = Permutation(size, 7, 0)(np.arange(size))
    assert np.array_equal(np.sort(order), np.arange(size))


def test_pure_and_keyed():
    indices = np.arange(1000)
    whole = Permutation(1000, 1, 2)(indices)
    assert np.array_equal(Permutation(1000, 1, 2)(indices[100:200]), whole[100:200])
    for keys in ((1, 3), (2, 2), (2, 1), (1,), (1, 2, 0)):
        assert (Permutation(1000, *keys)(indices) == whole).mean() < 0.02
    assert key(1, 2) != key(2, 1) and key(-1) != key(1)


def test_looks_random():
    """Neighbours land anywhere: mean distance a third of the range, no correlation, every place as likely."""
    size = 10_000
    order = Permutation(size, 3, 0)(np.arange(size)).astype(float)
    assert abs(np.abs(np.diff(order)).mean() / size - 1 / 3) < 0.02
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05
    firsts = np.array([Permutation(10, seed, 0)(np.arange(10)) for seed in range(2000)])
    for place in range(10):
        assert np.bincount(firsts[:, place], minlength=10).std() < 40  # 14 for fair draws


def test_a_size_far_beyond_memory():
    order = Permutation(635_000_000_000, 0, 0)(np.arange(1000))
    assert len(set(order.tolist())) == 1000 and order.max() > 5e11


def test_out_of_range():
    with pytest.raises(ValueError):
        Permutation(10, 0)(np.array([10]))
    with pytest.raises(ValueError):
        Permutation(0, 0)


@pytest.mark.parametrize(("length", "context"), [(1000, 10), (1009, 16), (11, 10), (20, 10), (21, 10), (2, 1), (5, 1)])
def test_an_epoch_visits_each_window_once(length, context):
    windows = Windows(np.arange(length, dtype=np.uint16), context, batch=1, seed=5)
    for epoch in range(3):
        starts = np.sort(np.concatenate([windows.starts(epoch * windows.count + i) for i in range(windows.count)]))
        assert (np.diff(starts) == context).all() and starts[0] == starts[0] % max(windows.slack, 1)
        assert starts[0] >= 0 and starts[-1] + context < length
        assert windows.count * context > length - 2 * context - 1


def test_windows_hold_neighbours():
    windows = Windows(np.arange(70_000, dtype=np.uint32), 8, batch=4, seed=1)
    inputs, targets = windows.at(3)
    assert inputs.shape == targets.shape == (4, 8) and inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(inputs + 1, targets) and torch.equal(inputs[:, 1:], targets[:, :-1])


def test_a_pure_function_of_seed_step_and_micro_batch():
    ids = np.random.default_rng(0).integers(0, 99, 500).astype(np.uint16)
    a = Windows(ids, 7, batch=6, accumulate=2, seed=3)
    assert torch.equal(a.at(40, 1)[0], Windows(ids, 7, batch=6, accumulate=2, seed=3).at(40, 1)[0])
    joined = torch.cat([a.at(11, 0)[0], a.at(11, 1)[0]])
    assert torch.equal(joined, Windows(ids, 7, batch=12, accumulate=1, seed=3).at(11)[0])
    assert not torch.equal(a.at(40, 1)[0], Windows(ids, 7, batch=6, accumulate=2, seed=4).at(40, 1)[0])


def test_cuts_differ_between_epochs():
    windows = Windows(np.arange(1000, dtype=np.uint16), 50, batch=1, seed=0)
    assert len({int(windows.starts(epoch * windows.count)[0]) % 50 for epoch in range(30)}) > 10
    assert windows.steps(3) == windows.count * 3


def test_a_batch_larger_than_an_epoch():
    windows = Windows(np.arange(12, dtype=np.uint16), 10, batch=7)
    assert windows.at(0)[0].shape == (7, 10)


def test_too_short_a_text():
    with pytest.raises(DataError, match="mine is too short: 64 tokens; a window of context 64 needs 65"):
        Windows(np.zeros(64, np.uint16), 64, 1, name="mine")
