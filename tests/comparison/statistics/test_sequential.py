"""Looks before the end: the levels keep the promise, and hopeless arms stop."""

from __future__ import annotations

import numpy as np
import pytest

from tests.comparison.statistics.simulated import verdicts_of
from transformula.comparison.statistics.power import Noise
from transformula.comparison.statistics.sequential import (
    LEVELS,
    is_decided,
    is_hopeless,
    level_at,
    over_all_looks,
    undecided,
)


def found(draws: int, levels: dict[int, float]) -> np.ndarray:
    """(looks): the part of comparisons without a difference that is called one up to each look."""
    from scipy.special import stdtr

    d = np.random.default_rng(3).standard_normal((draws, max(levels)))
    hits = []
    for pairs, level in levels.items():
        t = d[:, :pairs].mean(axis=1) / d[:, :pairs].std(axis=1, ddof=1) * pairs**0.5
        hits.append(2 * stdtr(pairs - 1, -abs(t)) < level)
    return np.logical_or.accumulate(hits).mean(axis=1)


def test_each_look_spends_its_share_of_five_percent() -> None:
    spent = found(100_000, LEVELS)
    assert spent == pytest.approx([0.05 * pairs / 12 for pairs in LEVELS], abs=0.002)
    assert found(100_000, dict.fromkeys(LEVELS, 0.05))[-1] > 0.1  # what the levels are for


def test_order_of_looks() -> None:
    assert level_at(5) == LEVELS[6] and level_at(20) == LEVELS[12]
    assert over_all_looks(LEVELS[9], 9) == pytest.approx(0.05)


def test_an_arm_that_is_hopeless_stops_after_one_seed() -> None:
    noise = Noise(0.01, 5, "measured")
    assert is_hopeless(0.061, noise, lower=True) and not is_hopeless(0.059, noise, lower=True)
    assert is_hopeless(-0.061, noise, lower=False) and not is_hopeless(-0.061, noise, lower=True)
    assert not is_hopeless(0.061, Noise(0.01, 1, "hardly known"), lower=True)
    [verdict] = verdicts_of({"base": [1.5], "bad": [1.7]}, until_decided=True, noise=noise)
    assert verdict.word == "worse" and "stopped after one seed" in verdict.sentence and is_decided(verdict)
    [verdict] = verdicts_of({"base": [1.5], "bad": [1.7]}, noise=noise)
    assert verdict.word == "inconclusive" and undecided([verdict]) == {("bad", "only")}


def test_intervals_at_a_look_are_wider() -> None:
    scores = {"base": [1.5, 1.52, 1.49, 1.51], "variant": [1.49, 1.508, 1.481, 1.499]}
    [once], [look] = verdicts_of(scores), verdicts_of(scores, until_decided=True)
    assert once.interval and look.interval
    assert look.interval[0] < once.interval[0] and look.interval[1] > once.interval[1]
    assert once.p == look.p and once.p_holm and look.p_holm == pytest.approx(once.p_holm * 0.05 / LEVELS[4])
    assert "overestimate" in look.may_not and "overestimate" not in once.may_not
