"""Batches of rows of like lengths: each row once an epoch, the budget held, little padding, any batch by its number."""

from pathlib import Path

import numpy as np
import pytest

from transformula.data.buckets import LAYOUTS, Buckets
from transformula.errors import ConfigError, DataError
from transformula.tokenizers.base import tokenizers

MULTI30K = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"


def lengths(rows: int = 3000, seed: int = 0) -> dict[str, np.ndarray]:
    """Two sides whose lengths go together, with a few long rows, as of sentences and their translations."""
    random = np.random.default_rng(seed)
    source = 3 + random.poisson(12, rows) + (random.random(rows) < 0.01) * random.integers(0, 40, rows)
    return {"source": source, "target": np.maximum(2, source + random.integers(-4, 4, rows))}


def test_each_row_once_an_epoch():
    buckets = Buckets(lengths(), 1000, seed=3)
    for epoch in range(LAYOUTS + 2):
        assert np.array_equal(np.sort(np.concatenate(list(buckets.epoch(epoch)))), np.arange(3000))


@pytest.mark.parametrize("accumulate", [1, 3])
def test_steps_walk_through_the_epochs(accumulate):
    buckets = Buckets(lengths(500), 400, accumulate=accumulate, seed=1)
    walked = [rows for epoch in range(2 * LAYOUTS + 1) for rows in buckets.epoch(epoch)]
    for number in range(len(walked) - accumulate):
        assert np.array_equal(buckets.rows(*divmod(number, accumulate)), walked[number])
    ends = np.cumsum([len(list(buckets.epoch(epoch))) for epoch in range(2 * LAYOUTS + 1)])
    for epoch, end in enumerate(ends, 1):
        assert buckets.steps(epoch) == -(-end // accumulate)
    assert buckets.steps(0) == 0


def test_a_pure_function_of_seed_and_step():
    a, b = Buckets(lengths(), 900, seed=5), Buckets(lengths(), 900, seed=5)
    late = [b.rows(step) for step in (10_000, 3, 500)]  # asked for in any order, with nothing before them
    for step, rows in zip((10_000, 3, 500), late, strict=True):
        assert np.array_equal(a.rows(step), rows)
    other = Buckets(lengths(), 900, seed=6)
    assert not any(np.array_equal(a.rows(step), other.rows(step)) for step in range(10))


def test_rows_meet_others_in_the_next_epoch():
    buckets = Buckets(lengths(), 500, seed=2)
    batch_of = np.zeros((2, 3000), dtype=int)
    for epoch in range(2):
        for number, rows in enumerate(buckets.epoch(epoch)):
            batch_of[epoch, rows] = number
    same = batch_of[:, :, None] == batch_of[:, None, :]
    kept = (same[0] & same[1]).sum() / same[0].sum()
    assert kept < 0.6


def test_short_and_long_batches_come_mixed():
    buckets = Buckets(lengths(), 500, seed=2)
    means = np.array([buckets.lengths[rows].mean() for rows in buckets.epoch()])
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.3


SIDES = {
    "source": lambda longest: longest[0],
    "target": lambda longest: longest[1],
    "longest": max,
    "all": sum,
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("budget", [77, 600, 10**9])
def test_padded_tokens_stay_within_the_budget(side, budget):
    buckets = Buckets(lengths(800), budget * (2 if side == "all" else 1), side)
    for epoch in range(LAYOUTS):
        for rows in buckets.epoch(epoch):
            assert len(rows) * SIDES[side](buckets.lengths[rows].max(axis=0)) <= buckets.budget


def test_batches_are_full_and_hold_little_padding():
    """Few more batches than the tokens need, and most of what they hold is real."""
    for budget in (1000, 4000):
        buckets = Buckets(lengths(30_000), budget, "target")
        fill = buckets.fill()
        needed = buckets.lengths[:, 1].sum() / budget
        assert needed < fill.batches < 1.2 * needed
        assert min(fill.share.values()) > 0.9
    assert fill.share["all"] > Buckets(lengths(30_000), 20_000, "target").fill().share["all"]
    assert "real tokens: source 9" in str(fill) and f"{fill.batches} batches of" in str(fill)


def test_filled_counts_real_tokens():
    padded, filled = (Buckets(lengths(), 700, "target", counted) for counted in ("padded", "filled"))
    assert filled.fill().batches < padded.fill().batches
    tokens = [filled.lengths[rows][:, 1].sum() for rows in filled.epoch()]
    assert 0.75 * 700 < np.mean(tokens) < 1.05 * 700


def test_one_side_alone():
    buckets = Buckets({"target": np.repeat([5, 9, 20], 400)}, 100)
    assert buckets.fill().share.keys() == {"target"} and buckets.fill().share["target"] > 0.98


def test_a_single_row():
    buckets = Buckets({"source": np.array([4]), "target": np.array([6])}, 6)
    assert buckets.rows(0).tolist() == buckets.rows(99).tolist() == [0] and buckets.steps(5) == 5


def test_what_is_refused():
    with pytest.raises(DataError, match="the pairs are none"):
        Buckets({"source": np.array([], dtype=int)}, 10, name="the pairs")
    with pytest.raises(DataError, match="row 2 has a side of no tokens .*1 in all"):
        Buckets({"source": np.array([1, 1]), "target": np.array([3, 0])}, 10)
    with pytest.raises(DataError, match="row 3 takes 12 tokens .side: target., and a batch holds 10 .such rows: 2"):
        Buckets({"source": np.array([1, 1, 1]), "target": np.array([3, 11, 12])}, 10, "target")
    with pytest.raises(ConfigError, match="side: 'traget' is none of: source, target, longest, all"):
        Buckets({"source": np.array([1]), "target": np.array([3])}, 10, "traget")
    with pytest.raises(ConfigError, match="counted: 'real' is none of: padded, filled"):
        Buckets({"source": np.array([1])}, 10, counted="real")


@pytest.mark.slow
@pytest.mark.skipif(not MULTI30K.is_dir(), reason=f"the data beside the project is not here: {MULTI30K}")
@pytest.mark.parametrize("joint", [True, False])
def test_multi30k(joint):
    """Of real sentence pairs, more than 95 % of all positions are real tokens, with any of the usual budgets."""
    texts = [(MULTI30K / f"train.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("de", "en")]
    bpe = tokenizers.get("bpe")
    trained = [bpe.train(texts[0] + texts[1], 8000)] * 2 if joint else [bpe.train(side, 6000) for side in texts]
    sides = [[len(ids) + 1 for ids in t.encode_many(side)] for t, side in zip(trained, texts, strict=True)]
    given = {"source": np.array(sides[0]), "target": np.array(sides[1])}
    for side, budget in (("target", 4096), ("longest", 4096), ("target", 1024)):
        buckets = Buckets(given, budget, side)
        assert all(buckets.fill(epoch).share["all"] > 0.95 for epoch in range(LAYOUTS))
