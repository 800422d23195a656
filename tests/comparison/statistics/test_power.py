"""The smallest difference that so many pairs find, and the pairs that a difference needs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.comparison.statistics.simulated import outcome
from transformula.comparison.records import Outcome
from transformula.comparison.statistics.power import (
    Noise,
    both,
    detectable,
    needed_pairs,
    noise_of_tuning,
)


def power(effect: float, pairs: int, level: float, draws: int = 100_000) -> float:
    """The part of simulated paired t-tests, of noise 1, that find the effect with its sign."""
    rng = np.random.default_rng(0)
    from scipy.special import stdtrit

    d = rng.standard_normal((draws, pairs)) + effect
    t = d.mean(axis=1) / d.std(axis=1, ddof=1) * math.sqrt(pairs)
    return float((t > stdtrit(pairs - 1, 1 - level / 2)).mean())


@pytest.mark.parametrize("pairs, variants", [(3, 1), (3, 5), (6, 1), (10, 5)])
def test_what_is_called_detectable_is_found_with_the_stated_power(pairs: int, variants: int) -> None:
    assert power(detectable(1.0, pairs, variants), pairs, 0.05 / variants) == pytest.approx(0.8, abs=0.006)


def test_needed_pairs_are_the_fewest_that_detect() -> None:
    for effect in (0.4, 1.0, 3.0):
        pairs = needed_pairs(1.0, effect) or 0
        assert detectable(1.0, pairs) <= effect < detectable(1.0, pairs - 1)
    assert needed_pairs(1.0, 1e-3) is None
    assert needed_pairs(0.0, 0.1) == 2


def test_curve_falls_with_seeds_and_grows_with_variants() -> None:
    curve = [detectable(0.01, pairs) for pairs in range(2, 13)]
    several = [detectable(0.01, pairs, variants=4) for pairs in range(2, 13)]
    assert curve == sorted(curve, reverse=True)
    assert all(more > one for more, one in zip(several, curve, strict=True))
    assert math.isinf(detectable(1.0, 1))


def tuning(rng: np.random.Generator, name: str, best: float, seeds: int, luck: float, noise: float) -> list[Outcome]:
    """Runs at five rates around the best; those at four times and a quarter of it are far noisier. Of one seed all have
    the same luck."""
    return [
        outcome(name, seed, 1.5 + 0.1 * away**2 + luck * np.sin(99.0 * seed) + sd * rng.standard_normal(),
                stage="tune", lr=best * 2.0**away)
        for away in (-2, -1, 0, 1, 2)
        for seed in range(seeds)
        for sd in [noise if abs(away) < 2 else 1.0]
    ]  # fmt: skip


def test_noise_of_tuning_runs_is_that_of_pairs_near_the_rates_that_were_chosen() -> None:
    """What a seed gives to both is no noise, nor is how the score changes with the rate; rates may differ."""
    rng, best = np.random.default_rng(1), {"base": 1e-3, "one": 1e-3, "two": 8e-3}
    runs = [run for name in best for run in tuning(rng, name, best[name], 200, luck=0.5, noise=0.01)]
    rates = {(name, "only"): rate for name, rate in best.items()}
    noise = noise_of_tuning(runs, "base", "only", rates)
    assert noise is not None and noise.degrees == 2 * 3 * 199
    assert noise.difference == pytest.approx(0.01 * 2**0.5, rel=0.1)
    alone = noise_of_tuning([run for run in runs if run.variant == "base"], "base", "only", rates)
    assert alone is not None and alone.difference == pytest.approx(2**0.5 * (0.5**2 / 2 + 0.01**2) ** 0.5, rel=0.1)
    assert noise_of_tuning(tuning(rng, "base", 1e-3, 1, 0.0, 0.01), "base", "only", rates) is None
    assert noise_of_tuning(runs, "base", "other size", rates) is None


def test_what_was_expected_weighs_as_much_as_four_degrees_of_freedom() -> None:
    noise = both(0.01, Noise(0.04, 12, "measured"))
    assert noise.degrees == 16 and noise.difference == pytest.approx(((0.01**2 + 3 * 0.04**2) / 4) ** 0.5)


@pytest.mark.parametrize("others, expected, share", [(1, 0.4, 0.83), (3, 0.4, 0.93), (1, 0.0, 0.95)])
def test_noise_is_right_within_one_and_a_half_times_before_anything_is_confirmed(
    others: int, expected: float, share: float
) -> None:
    """By 2 seeds at each of 5 rates; what was expected is wrong by a factor of exp(0.4) one way or the other."""
    rng, names = np.random.default_rng(2), ["base", *(f"variant {n}" for n in range(others))]
    rates, right = {(name, "only"): 1e-3 for name in names}, 0
    for _ in range(400):
        runs = [run for name in names for run in tuning(rng, name, 1e-3, 2, luck=0.1, noise=0.01)]
        measured = noise_of_tuning(runs, "base", "only", rates)
        assert measured is not None and measured.degrees == 3 * others
        noise = both(0.01 * 2**0.5 * math.exp(expected * rng.standard_normal()), measured)
        right += abs(math.log(noise.difference / (0.01 * 2**0.5))) < math.log(1.5)
    assert right / 400 == pytest.approx(share, abs=0.05)
