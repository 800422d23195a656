"""Curves of the score against the learning rate."""

from __future__ import annotations

import math

import pytest

from tests.comparison.statistics.simulated import outcome
from transformula.comparison.statistics.rates import curve_of, rate_curve

GRID = [1e-3 * 2.0**n for n in range(-2, 3)]


def bowl(best: float, curvature: float = 0.05) -> dict[float, float | None]:
    return {rate: 1.5 + curvature * math.log(rate / best) ** 2 for rate in GRID}


def test_optimum_of_a_parabola_is_exact() -> None:
    curve = curve_of(bowl(1.3e-3), lower=True)
    assert curve is not None and curve.best == 1e-3 and not curve.at_edge
    assert curve.optimum == pytest.approx(1.3e-3)


def test_more_may_be_better() -> None:
    turned = {rate: -score for rate, score in bowl(1.3e-3).items() if score}
    curve, other = curve_of(turned, lower=False), curve_of(bowl(1.3e-3), lower=True)
    assert curve and other and (curve.best, curve.sensitivity) == (other.best, pytest.approx(other.sensitivity))


def test_best_at_an_edge_is_said_and_a_rate_that_diverged_is_no_edge() -> None:
    curve = curve_of(bowl(8e-3), lower=True)
    assert curve and curve.at_edge and curve.optimum == curve.best == GRID[-1]
    curve = curve_of({**bowl(8e-3), 2 * GRID[-1]: None}, lower=True)
    assert curve and not curve.at_edge and curve.optimum == curve.best
    assert curve_of({1e-3: None}, lower=True) is None


def test_sensitivity_is_the_mean_excess() -> None:
    flat, steep = curve_of(bowl(1e-3, 0.0), lower=True), curve_of(bowl(1e-3, 0.1), lower=True)
    assert flat and steep and flat.sensitivity == 0.0
    assert steep.sensitivity == pytest.approx(0.1 * math.log(2) ** 2 * (4 + 1 + 0 + 1 + 4) / 5)
    broken = curve_of({1e-3: 1.5, 2e-3: None}, lower=True)
    assert broken and broken.sensitivity == pytest.approx(0.75)  # one of two rates counts as twice the best
    wide = curve_of({**bowl(1e-3, 0.1), 1.0: 1.5}, lower=True)
    assert wide and wide.sensitivity == pytest.approx(steep.sensitivity)  # far from the best nothing counts


def test_runs_of_the_tuning_are_averaged_over_seeds() -> None:
    runs = [
        outcome("v", seed, (score or 0) + 0.01 * seed, stage="tune", lr=lr)
        for lr, score in bowl(1e-3).items()
        for seed in (0, 1)
    ]
    curve = rate_curve([*runs, outcome("v", 5, 0.1, lr=7.0)], "v", "only", lower=True)
    assert curve and curve.best == 1e-3 and dict(curve.scores)[1e-3] == pytest.approx(1.505)
    broken = rate_curve([*runs, outcome("v", 2, None, stage="tune", lr=1e-3)], "v", "only", lower=True)
    assert broken and broken.best != 1e-3 and dict(broken.scores)[1e-3] is None
    assert rate_curve([], "v", "only", lower=True) is None
