"""Curves of the score against the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.comparison.statistics.simulated import arm, outcome
from transformula.comparison.records import Outcome
from transformula.comparison.statistics.rates import RateFit, fit_rates, rate_curve
from transformula.inspection.rate_curves import LEVEL, curve_of, same_curve_p, without_cliffs

GRID = [1e-3 * 2.0**n for n in range(-2, 3)]


def bowl(best: float, curvature: float = 0.05) -> dict[float, float | None]:
    return {rate: 1.5 + curvature * math.log(rate / best) ** 2 for rate in GRID}


def test_more_may_be_better() -> None:
    turned = {rate: -score for rate, score in bowl(1.3e-3).items() if score}
    curve, other = curve_of(turned, lower=False), curve_of(bowl(1.3e-3), lower=True)
    assert curve and other and (curve.best, curve.sensitivity) == (other.best, pytest.approx(other.sensitivity))


def test_best_at_an_edge_is_said_and_a_rate_that_diverged_is_no_edge() -> None:
    curve = curve_of(bowl(8e-3), lower=True)
    assert curve and curve.at_edge and curve.best == GRID[-1]
    curve = curve_of({**bowl(8e-3), 2 * GRID[-1]: None}, lower=True)
    assert curve and not curve.at_edge and curve.best == GRID[-1]
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


Curve = Callable[[float], float | None]  # octaves from the default rate -> loss; None: it diverges


def tuned(curves: dict[str, Curve], noise: float = 0.0, seeds: int = 2, size: str = "only") -> list[Outcome]:
    """Runs of five rates, with noise of their own."""
    rng = np.random.default_rng(4)
    return [
        outcome(name, seed, loss if loss is None else loss + 0.1 * seed + noise * rng.standard_normal(), size,
                stage="tune", lr=1e-3 * 2.0**place)
        for name, curve in curves.items()
        for place in range(-2, 3)
        for loss in [curve(place)]
        for seed in range(seeds)
    ]  # fmt: skip


def fitted(curves: dict[str, Curve], lower: bool = True, confirmed: float | None = None, **settings) -> RateFit:
    runs = tuned(curves, **settings)
    runs += [outcome(name, 9, 1.0, lr=confirmed) for name in curves] if confirmed else []
    return fit_rates(runs, [arm(name) for name in curves], lower)["only"]


def parabola(best: float, curvature: float = 0.05, lowest: float = 1.5) -> Curve:
    return lambda place: lowest + curvature * (place - best) ** 2


def test_the_best_rate_lies_off_the_grid_and_arms_of_one_curve_share_it() -> None:
    fit = fitted({"base": parabola(0.3), "twin": parabola(0.3, lowest=1.2), "third": parabola(0.3, lowest=1.9)})
    assert {curve.best for curve in fit.curves.values()} == {0.25}  # a quarter of an octave
    assert fit.curves["base"].bests[0] == pytest.approx(0.3)
    assert fit.curves["base"] is fit.curves["twin"] is fit.curves["third"]
    assert fit.error({"twin": 1, "base": -1}) == (0.0, 1.0)


def test_an_arm_whose_curve_differs_has_its_own_best() -> None:
    fit = fitted({"base": parabola(-0.5), "other": parabola(0.5), "twin": parabola(-0.5)}, noise=0.002)
    assert [fit.curves[name].best for name in ("base", "other", "twin")] == [-0.5, 0.5, -0.5]
    assert fit.curves["base"] is fit.curves["twin"] is not fit.curves["other"]
    assert fit.p["other"] < 0.05 < fit.p["twin"]
    low, high = fit.curves["other"].interval
    assert -0.5 < low < 0.5 < high < 1.0


def test_arms_of_two_optimizers_never_share_a_curve() -> None:
    runs = tuned({"adamw": parabola(0.0), "muon": parabola(0.0), "muon too": parabola(0.0)}, noise=0.002)
    arms = [replace(arm(name), config={"optimizer": name.split()[0]}) for name in ("adamw", "muon", "muon too")]
    fit = fit_rates(runs, arms, True)["only"]
    assert fit.curves["adamw"] is not fit.curves["muon"] is fit.curves["muon too"]


def test_an_arm_that_diverges_near_the_best_has_its_own_curve() -> None:
    base = parabola(1.0)
    fit = fitted({"base": base, "breaks": lambda place: base(place) if place < 1 else None}, noise=1e-3)
    assert fit.curves["base"].best == 1.0 and fit.p["breaks"] == 0.0
    assert fit.curves["breaks"].best == 0.0 and fit.curves["breaks"].edge == 0  # higher rates were tried


@pytest.mark.parametrize("best, edge", [(-2.4, -1), (-1.2, 0), (1.2, 0), (1.9, 1), (2.4, 1)])
def test_a_best_at_or_beyond_the_last_rate_is_at_an_edge(best: float, edge: int) -> None:
    curve = fitted({"base": parabola(best)}).curves["base"]
    assert curve.edge == edge and -2 <= curve.best <= 2


def test_a_cliff_does_not_move_the_best_away_from_it() -> None:
    """Above the best rate the loss jumps, though no run diverged: these runs are left out."""
    cliff = {"base": lambda place: 2.0 - 0.05 * place if place <= 0 else 4.0 + place}
    curve = fitted(cliff, noise=0.002).curves["base"]
    assert curve.best == 0.0 and curve.edge == 0 and curve.span == (-2.0, 0.0)


@pytest.mark.parametrize("best", [-2.0, -1.5, -0.5, 0.0, 0.4, 1.0, 2.0])
def test_of_a_parabola_no_run_near_the_best_is_left_out(best: float) -> None:
    runs = {(place, seed): parabola(best, 0.4)(place) for place in range(-2, 3) for seed in (1, 2)}
    kept = without_cliffs(runs)
    assert all(kept[place, seed] == loss for (place, seed), loss in runs.items() if abs(place - best) < 2)


def test_of_a_score_of_which_more_is_better_the_highest_is_taken() -> None:
    fit = fitted({"base": lambda place: 60 - 2 * (place + 1) ** 2}, lower=False)
    assert fit.curves["base"].best == -1.0


def test_where_the_rate_does_not_matter_it_adds_little() -> None:
    flat, steep = (
        fitted({"base": parabola(0.5, bend), "other": parabola(-0.5, bend + 1e-9)}, noise=0.01, seeds=2, confirmed=1e-3)
        for bend in (0.0, 0.1)
    )
    assert flat.error({"base": 1, "other": -1})[0] ** 0.5 < 0.02
    assert steep.curves["base"] is not steep.curves["other"]


def test_the_uncertainty_of_two_rates_is_that_of_their_losses() -> None:
    """With curvature h and bests known with variance v, both at their best: the difference of the losses has a variance
    of 4 (h v)^2."""
    fit = fitted({"base": parabola(-1.0, 0.05), "other": parabola(1.0, 0.05)}, noise=0.01)
    one, other = fit.curves["base"], fit.curves["other"]
    fit.used.update(base=float(one.bests[0]), other=float(other.bests[0]))
    known = [float(curve.draws[0, 1] * np.var(curve.bests)) for curve in (one, other)]
    variance, degrees = fit.error({"other": 1, "base": -1})
    assert variance == pytest.approx(2 * (known[0] ** 2 + known[1] ** 2), rel=0.3) and degrees > 1
    fit.used.update(other=float(other.bests[0]) + 1)  # an octave from its best
    assert fit.error({"other": 1, "base": -1})[0] > 0.04**2


def test_arms_that_differ_at_one_size_differ_at_those_above() -> None:
    small = tuned({"base": parabola(-1.0), "other": parabola(1.0)}, noise=0.002, size="small")
    large = tuned({"base": parabola(0.0), "other": parabola(0.0)}, noise=0.002, size="large")
    arms = [arm(name, size) for size in ("small", "large") for name in ("base", "other")]
    fits = fit_rates([*small, *large], arms, True)
    assert fits["large"].curves["base"] is not fits["large"].curves["other"]


def test_too_few_runs_say_nothing_of_a_difference() -> None:
    arms, runs = [arm("base"), arm("other")], tuned({"base": parabola(-1.0), "other": parabola(1.0)}, seeds=1)
    few = [run for run in runs if 5e-4 <= run.lr <= 1e-3]
    fit = fit_rates(few, arms, True)["only"]
    assert fit.curves["base"] is fit.curves["other"] and fit.error({"other": 1, "base": -1}) == (0.0, 1.0)
    assert fit_rates([], arms, True)["only"].curves == {}


@pytest.mark.parametrize("alike", [0.01, 1.3, 2.0])
def test_equal_arms_are_told_apart_as_often_as_is_said_whether_luck_is_alike_at_neighboring_rates(alike: float) -> None:
    """At most in 5 of 100; with runs taken for independent it was 12 of 100 at 1.3 octaves."""
    rng, places, count = np.random.default_rng(0), np.arange(-2.0, 3.0), 300
    spread = np.linalg.cholesky(np.exp(-np.abs(places[:, None] - places) / alike))
    apart, moved = 0, 0
    for _ in range(count):
        luck = 0.5 * rng.normal(size=(2, 2, len(places))) @ spread.T
        one, other = (
            {(place, seed): 2 * place**2 + luck[arm, seed, n] for n, place in enumerate(places) for seed in (0, 1)}
            for arm in (0, 1)
        )
        apart += same_curve_p(one, other) < LEVEL
        moved += same_curve_p(one, {key: loss + 2 * key[0] for key, loss in other.items()}) < LEVEL
    assert apart <= 0.05 * count + 3 * (0.05 * 0.95 * count) ** 0.5
    assert moved > 0.9 * count


def test_the_chosen_rate_lies_in_the_interval_of_the_best() -> None:
    """It is rounded to quarters of an octave, which may be more than its interval is wide."""
    for best in (1.07e-3, 1.1e-3, 1.17e-3):
        curve = fitted({"a": parabola(best, 0.5)}).curves["a"]
        assert curve.interval[0] <= curve.best <= curve.interval[1]
        assert curve.interval[1] - curve.interval[0] < 0.3
