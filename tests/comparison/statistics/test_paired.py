"""Tests of a mean difference: what they give where the answer is known, and with no noise at all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from transformula.comparison.statistics.paired import (
    bootstrap_interval,
    equivalence_p,
    holm,
    paired_test,
    sign_flip,
    unequal_counts,
    unpaired_test,
)

VALUES = [-0.02, -0.05, 0.01, -0.03, -0.04, -0.015]


@pytest.mark.parametrize("pairs, smallest", [(3, 0.25), (5, 0.0625), (6, 0.03125), (8, 0.0078125), (10, 0.001953125)])
def test_sign_flip_reaches_the_smallest_p_that_it_can(pairs: int, smallest: float) -> None:
    assert sign_flip([0.1 + 0.01 * n for n in range(pairs)]) == (pytest.approx(smallest), smallest)


def test_sign_flip_counts_all_patterns_of_signs() -> None:
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, VALUES, strict=True)))
        for signs in product((1, -1), repeat=6)
    ]
    expected = np.mean([total >= abs(sum(VALUES)) - 1e-12 for total in sums])
    assert sign_flip(VALUES)[0] == pytest.approx(expected)
    assert sign_flip([-value for value in VALUES])[0] == pytest.approx(expected)


def test_paired_test_by_hand() -> None:
    estimate = paired_test(VALUES)
    mean, error = np.mean(VALUES), np.std(VALUES, ddof=1) / 6**0.5
    assert estimate.mean == pytest.approx(mean)
    assert estimate.interval == pytest.approx((mean - 2.570582 * error, mean + 2.570582 * error), rel=1e-5)
    wider = paired_test(VALUES, level=0.01).interval
    assert wider and estimate.interval and wider[0] < estimate.interval[0] and wider[1] > estimate.interval[1]


def test_equal_differences_divide_by_nothing() -> None:
    """Without noise p is the sign-flip test's, and identical runs have 1."""
    assert paired_test([0.0] * 4).p == 1.0
    estimate = paired_test([0.1] * 6)
    assert estimate.p == pytest.approx(0.03125) and estimate.interval == pytest.approx((0.1, 0.1))
    assert bootstrap_interval([0.1] * 8) == (0.1, 0.1)
    assert equivalence_p([0.0] * 4, 0.01) == 0.0
    assert equivalence_p([0.1] * 6, 0.2) == pytest.approx(0.03125)
    assert equivalence_p([0.3] * 6, 0.2) == 1.0


def test_bootstrap_needs_eight_pairs_and_contains_the_mean() -> None:
    assert bootstrap_interval(VALUES) is None
    low, high = bootstrap_interval(VALUES + VALUES) or (0, 0)
    assert low < np.mean(VALUES) < high < 0
    assert bootstrap_interval(VALUES + VALUES) == (low, high)


def test_equivalence_is_that_the_interval_of_90_percent_lies_inside() -> None:
    low, high = paired_test(VALUES, level=0.1).interval or (0, 0)
    assert equivalence_p(VALUES, abs(low) + 1e-6) < 0.05 < equivalence_p(VALUES, abs(low) - 1e-6)


def test_unpaired_runs_are_compared_by_welch() -> None:
    estimate = unpaired_test([1.0, 1.1, 0.9], [1.5, 1.52, 1.48, 1.5])
    assert estimate.mean == pytest.approx(-0.5) and estimate.p < 0.05 and estimate.sd is None
    assert unpaired_test([1.0, 1.0], [1.0, 1.0]).p == 1.0


def test_counts_of_divergence() -> None:
    assert unequal_counts(6, 0) == pytest.approx(2 * 0.5**6)
    assert unequal_counts(1, 0) == 1.0 == unequal_counts(0, 0)


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.02]) == [0.02] and holm([]) == []


def test_holm_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(1)
    for count in (2, 5, 20):
        p = rng.random(count).round(1 + count % 2) ** 3  # with equal values
        assert holm(p.tolist()) == pytest.approx(multipletests(p, method="holm")[1].tolist())


COMMON = (0.02**2, 6.0)  # what all pairs have alike: variance, degrees of freedom


def test_what_all_pairs_have_alike_widens_every_test() -> None:
    values = [*VALUES, -0.03, -0.02]
    narrow, wide = paired_test(values), paired_test(values, common=COMMON)
    assert wide.mean == narrow.mean and wide.sd == narrow.sd and wide.p > narrow.p
    assert wide.interval and narrow.interval and wide.interval[0] < narrow.interval[0] < narrow.interval[1]
    assert sign_flip(values, COMMON)[0] > sign_flip(values)[0]
    assert equivalence_p(values, 0.08, COMMON) > equivalence_p(values, 0.08)
    (low, high), (lower, higher) = bootstrap_interval(values) or (), bootstrap_interval(values, common=COMMON) or ()
    assert lower < low < high < higher
    unpaired = unpaired_test(values, [0.0, 0.01, 0.02]), unpaired_test(values, [0.0, 0.01, 0.02], common=COMMON)
    assert unpaired[1].p > unpaired[0].p
    assert paired_test([0.01] * 4, common=COMMON).interval != (0.01, 0.01)
    assert sign_flip([0.0] * 4, COMMON)[0] == 1.0


def test_intervals_hold_a_truth_from_which_all_pairs_are_as_far() -> None:
    """The deviation of what pairs have alike is as large as that of the mean of 6; without it 3 of 4 intervals hold."""
    rng = np.random.default_rng(2)
    draws = 0.05 + 0.02 * rng.standard_normal((600, 1)) + 0.05 * rng.standard_normal((600, 6))
    held, flips = 0, 0
    for values in draws:
        interval = paired_test(values, common=COMMON).interval or (0.0, 0.0)
        held += interval[0] <= 0.05 <= interval[1]
        flips += sign_flip(values - 0.05, COMMON)[0] < 0.05
    assert 0.93 <= held / 600 <= 0.985 and flips / 600 <= 0.075
    plain = [paired_test(values).interval or (0.0, 0.0) for values in draws]
    assert np.mean([low <= 0.05 <= high for low, high in plain]) < 0.9
