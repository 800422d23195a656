"""Ratios of time, from pairs that were measured side by side. All times are made up."""

from __future__ import annotations

import numpy as np
import pytest

from transformula.cost.ratio import RESOLUTION, Ratio, ratio_of_times


def pairs(rng: np.random.Generator, count: int, ratio: float = 1.0, noise: float = 0.02) -> list[list]:
    """(seconds, seconds of processors) of a variant and of the base, whose machine grows slower, with bursts."""
    mood = np.exp(np.linspace(0, 0.7, count) + (rng.random(count) < 0.3) * rng.random(count))
    own = np.exp(noise * rng.standard_normal((2, count)))
    return [[(3.0 * second, second) for second in row] for row in (ratio * mood * own[0], mood * own[1])]


def test_a_ratio_of_equal_things_is_1_whatever_the_machine_does_beside_them() -> None:
    rng = np.random.default_rng(0)
    found = [ratio_of_times(*pairs(rng, count)) for count in (6, 16, 60) for _ in range(200)]
    assert sum(ratio.factor == 1 for ratio in found) >= 599 and all(ratio.value != 1 for ratio in found)


def test_a_ratio_that_is_clear_is_told_with_its_interval() -> None:
    rng = np.random.default_rng(1)
    found = [ratio_of_times(*pairs(rng, 16, ratio=1.135)) for _ in range(100)]
    assert all(ratio.factor == ratio.value == pytest.approx(1.135, rel=0.05) for ratio in found)
    assert all(ratio.low <= 1.135 <= ratio.high for ratio in found)
    assert str(Ratio(1.134, 1.1, 1.16)) == "1.13 (1.10 to 1.16)"
    assert str(Ratio(0.78, 0.5, 1.2)) == "about 1 (0.50 to 1.20)"


def test_few_pairs_say_nothing_and_exact_times_are_exact() -> None:
    assert ratio_of_times([(2.0, 0.0)] * 2, [(1.0, 0.0)] * 2).factor == 1
    assert ratio_of_times([(2.0, 0.0)] * 3, [(1.0, 0.0)] * 3).factor == pytest.approx(2.0)
    near = ratio_of_times([(1 + 0.9 * RESOLUTION, 0.0)] * 9, [(1.0, 0.0)] * 9)
    assert near.factor == 1  # a machine does not tell such programs apart


def test_time_of_processors_is_taken_where_all_runs_have_it() -> None:
    ours, theirs = [(9.0, 1.5), (1.0, 1.5), (5.0, 1.5)], [(1.0, 1.0)] * 3
    assert ratio_of_times(ours, theirs).value == pytest.approx(1.5)
    assert ratio_of_times(ours, [(1.0, 1.0), (1.0, 0.0), (1.0, 1.0)]).value == pytest.approx(5.0)
