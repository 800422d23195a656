"""Ratios of time, from pairs that were measured side by side. All times are made up."""

from __future__ import annotations

import numpy as np
import pytest

from tests.comparison.statistics.simulated import arm, outcome
from transformula.comparison.records import Outcome, Ratio
from transformula.comparison.statistics.ratios import RESOLUTION, ratio_of_times, timed
from transformula.comparison.statistics.terms import Terms
from transformula.comparison.statistics.verdicts import judge


def pairs(rng: np.random.Generator, count: int, ratio: float = 1.0, noise: float = 0.02) -> list[list]:
    """(seconds, seconds of processors) of a variant and of the base, whose machine grows slower, with bursts."""
    mood = np.exp(np.linspace(0, 0.7, count) + (rng.random(count) < 0.3) * rng.random(count))
    own = np.exp(noise * rng.standard_normal((2, count)))
    return [[(3.0 * second, second) for second in row] for row in (ratio * mood * own[0], mood * own[1])]


def test_a_ratio_of_equal_things_is_1_whatever_the_machine_does_beside_them() -> None:
    rng = np.random.default_rng(0)
    found = [ratio_of_times(*pairs(rng, count)) for count in (6, 16, 60) for _ in range(200)]
    assert sum(ratio.factor == 1 for ratio in found) >= 597 and all(ratio.value != 1 for ratio in found)


def test_a_ratio_that_is_clear_is_told_with_its_interval() -> None:
    rng = np.random.default_rng(1)
    found = [ratio_of_times(*pairs(rng, 16, ratio=1.135)) for _ in range(100)]
    assert all(ratio.factor == ratio.value == pytest.approx(1.135, rel=0.05) for ratio in found)
    assert sum(ratio.low <= 1.135 <= ratio.high for ratio in found) >= 98
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


def runs(seconds: dict[str, list[float]], **more: object) -> list[Outcome]:
    return [
        outcome(name, seed, 2.0 + seed / 100 - 0.1 * (name == "fast"), seconds=taken, **more)
        for name, row in seconds.items()
        for seed, taken in enumerate(row)
    ]


def test_time_is_what_pairs_of_runs_took_and_not_what_a_short_measurement_said() -> None:
    arms = [arm("base", step_seconds=0.01), arm("fast", step_seconds=0.02, time_ratio=(2.0, 1.9, 2.1))]

    def claim(*base_and_fast: list[float]) -> str:
        return judge(runs(dict(zip(("base", "fast"), base_and_fast, strict=True))), arms, Terms("base"))[0].may_not

    moods = [30.0, 90.0, 35.0, 60.0]
    assert "equal time" not in claim(moods, [1.01 * mood for mood in moods])
    assert "equal time" not in claim(moods, [20.0, 20.0, 90.0, 40.0])  # 0.67 times as long, by chance
    assert "equal time (fast takes 1.50 times as much as the base, 99 % interval 1.4" in claim(
        moods, [1.5 * mood for mood in moods]
    )
    assert "equal time (fast takes 2.00 times" in claim([0.0] * 4, [0.0] * 4)  # nothing is known but the plan's


def test_pairs_are_of_one_stage_and_rate_and_the_bases_median_is_the_measure() -> None:
    """Runs that tuned a rate are pairs, too; a run without a partner is none."""
    tuned = runs({"base": [10.0, 20.0], "fast": [5.0, 10.0]}, stage="tune", lr=1e-3)
    confirmed = [*runs({"base": [30.0], "fast": [15.0]}), outcome("fast", 9, 1.9, seconds=99.0)]
    base, fast = timed([arm("base"), arm("fast")], [*tuned, *confirmed], "base")
    assert base.costs.seconds == pytest.approx(20.0) and fast.costs.seconds == pytest.approx(10.0)
    assert fast.costs.ratio is not None and fast.costs.ratio.high < 0.52
    alone, other = timed([arm("base"), arm("fast")], runs({"base": [30.0, 40.0]}), "base")
    assert alone.costs.seconds == pytest.approx(35.0) and other.costs == arm("fast").costs
