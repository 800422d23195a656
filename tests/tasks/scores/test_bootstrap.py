"""Intervals: of the sums, seeded, of the right width; pairs of systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from tests.tasks.scores.fixture import texts
from transformula.tasks.scores import report as reports
from transformula.tasks.scores.measured import bleu, mean_of
from transformula.tasks.scores.report import resample


def coins(share: float, count: int = 400, seed: int = 0) -> Any:
    return mean_of("coins", "", 100.0 * (np.random.default_rng(seed).random(count) < share))


def test_a_resample_is_scored_as_its_texts_are() -> None:
    """The sums of statistics give what sacrebleu gives for the texts that were drawn."""
    made, asked = texts(30)
    drawn = np.random.default_rng(5).integers(30, size=(4, 30))
    expected = [BLEU().corpus_score([made[i] for i in row], [[asked[i] for i in row]]).score for row in drawn]
    np.testing.assert_allclose(resample(bleu(made, asked), 4, seed=5), expected, atol=1e-9)


def test_the_same_seed_the_same_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = coins(0.3)
    whole = resample(measured, 100, seed=3)
    np.testing.assert_array_equal(resample(measured, 100, seed=3), whole)
    assert not np.array_equal(resample(measured, 100, seed=4), whole)
    monkeypatch.setattr(reports, "AT_ONCE", 7 * 400)
    np.testing.assert_array_equal(resample(measured, 100, seed=3), whole)


def test_the_width_is_that_of_the_mean_of_coins() -> None:
    """Between the percentiles of a binomial: 1.96 sqrt(p (1 - p) / n) to both sides."""

    def interval(measured: Any) -> Any:
        (row,) = reports.score_report(lambda _: [measured], None, {}, [("", "x", [])] * len(measured)).rows
        return row.interval

    measured = coins(0.3)
    half = 1.96 * np.sqrt(measured.score * (100 - measured.score) / len(measured))
    low, high = interval(measured)
    assert low == pytest.approx(measured.score - half, abs=0.2 * half)
    assert high == pytest.approx(measured.score + half, abs=0.2 * half)
    assert interval(mean_of("same", "", [50.0] * 10)) == ()
