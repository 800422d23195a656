"""Intervals: of the sums, seeded, of the right width; pairs of systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from tests.tasks.scores.fixture import texts
from transformula.errors import InputError
from transformula.tasks.scores import bootstrap
from transformula.tasks.scores.bleu import bleu
from transformula.tasks.scores.bootstrap import interval, resampled
from transformula.tasks.scores.measured import mean_of


def coins(share: float, count: int = 400, seed: int = 0) -> Any:
    return mean_of("coins", "", 100.0 * (np.random.default_rng(seed).random(count) < share))


def test_a_resample_is_scored_as_its_texts_are() -> None:
    """The sums of statistics give what sacrebleu gives for the texts that were drawn."""
    made, asked = texts(30)
    drawn = np.random.default_rng(5).integers(30, size=(4, 30))
    expected = [BLEU().corpus_score([made[i] for i in row], [[asked[i] for i in row]]).score for row in drawn]
    np.testing.assert_allclose(resampled(bleu(made, asked), 4, seed=5), expected, atol=1e-9)


def test_the_same_seed_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = coins(0.3)
    assert interval(measured, seed=3) == interval(measured, seed=3) != interval(measured, seed=4)
    whole = resampled(measured, 100)
    monkeypatch.setattr(bootstrap, "AT_ONCE", 7 * 400)
    np.testing.assert_array_equal(resampled(measured, 100), whole)


def test_the_width_is_that_of_the_mean_of_coins() -> None:
    """Between the percentiles of a binomial: 1.96 sqrt(p (1 - p) / n) to both sides."""
    measured = coins(0.3)
    half = 1.96 * np.sqrt(measured.score * (100 - measured.score) / len(measured))
    found = interval(measured, resamples=4000)
    assert found.low == pytest.approx(measured.score - half, abs=0.12 * half)
    assert found.high == pytest.approx(measured.score + half, abs=0.12 * half)
    narrow = interval(measured, level=0.5, resamples=4000)
    assert narrow.high - narrow.low == pytest.approx(2 * half * 0.6745 / 1.96, rel=0.15)
    assert interval(mean_of("same", "", [50.0] * 10)) == bootstrap.Interval(50.0, 50.0)


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        interval(coins(0.3), resamples=0)
    with pytest.raises(InputError, match="between 0 and 1, as 0.95"):
        interval(coins(0.3), level=95)
