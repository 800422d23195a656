"""The noise of seeds and of the validation set, apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.comparison.statistics.simulated import outcome
from transformula.comparison.statistics.noise import noise_of_pairs, unit_of_rows, variance_components
from transformula.comparison.statistics.pairs import pair


def test_components_are_those_that_the_numbers_were_made_with() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(50, 200, 400)
    by_seed = 0.02 * rng.standard_normal((300, 1))
    by_part = 3.0 * rng.standard_normal(400) / weights**0.5
    rest = 5.0 * rng.standard_normal((300, 400)) / weights**0.5
    parts = variance_components(by_seed + by_part + rest, weights)
    own = 5.0**2 / weights.sum()
    assert parts["seeds"] == pytest.approx((0.02**2 + own) ** 0.5, rel=0.1)
    assert parts["seeds alone"] == pytest.approx(0.02, rel=0.15)
    assert parts["evaluation"] == pytest.approx(3.0 / weights.sum() ** 0.5, rel=0.1)


def test_parts_are_in_the_unit_of_the_score() -> None:
    """Rows in nats, a score in bits per byte; a score that is no mean of the rows has no noise of evaluation."""
    rows = {
        (name, seed): [1.0 + 0.1 * seed, 2.0 + 0.02 * seed * shift]
        for name, shift in (("base", 1), ("v", 2))
        for seed in (1, 2, 3)
    }

    def noise(factor: float, jump: float = 0.0) -> dict[str, float]:
        runs = [
            outcome(name, seed, factor * (1 * row[0] + 3 * row[1]) / 4 + jump * seed, rows=row, weights=[1, 3])
            for (name, seed), row in rows.items()
        ]
        return noise_of_pairs(runs, "v", "base", "only", pair(runs, "v", "base", "only", lower=True))

    assert set(noise(1.0)) == {"seeds", "seeds alone", "evaluation"}
    assert noise(1.44)["evaluation"] == pytest.approx(1.44 * noise(1.0)["evaluation"])
    assert set(noise(1.0, jump=0.1)) == {"seeds"}


def test_runs_with_other_parts_are_not_compared_by_parts() -> None:
    one = outcome("base", 1, 1.0, rows=[1.0, 1.0], weights=[1, 1])
    assert unit_of_rows([one, one]) == pytest.approx(1.0)
    assert unit_of_rows([one, outcome("v", 1, 1.0, rows=[1.0, 1.0], weights=[2, 1])]) is None
    assert unit_of_rows([outcome("base", 1, 1.0)]) is None
