"""The smallest difference that so many pairs find, and the pairs that a difference needs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.comparison.statistics.simulated import outcome
from transformula.comparison.statistics.power import (
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


def test_noise_of_tuning_runs() -> None:
    rng = np.random.default_rng(1)
    runs = [
        outcome("base", seed, 1.5 + 0.01 * rng.standard_normal(), stage="tune", lr=lr)
        for lr in (1e-3, 2e-3, 4e-3)
        for seed in range(200)
    ]
    far = [outcome("base", seed, 2.0 + rng.standard_normal(), stage="tune", lr=0.1) for seed in range(200)]
    noise = noise_of_tuning(runs + far, "base", "only", lower=True)
    assert noise is not None and noise.difference == pytest.approx(0.01 * 2**0.5, rel=0.1) and noise.degrees > 300
    assert noise_of_tuning(runs[:1], "base", "only", lower=True) is None
