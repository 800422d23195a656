"""Grids of varied keys, and balanced parts of them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from transformula.comparison.vary import RATES, factor_of, grid, multiplied, read_rows
from transformula.errors import ConfigError


def test_rows_are_read() -> None:
    rows = ["optimizer=adamw,muon", "norm=rms, rmsnorm(x, eps=1e-6)", "after=none | x = norm(x)"]
    assert read_rows(rows) == {
        "optimizer": ["adamw", "muon"],
        "norm": ["rms", "rmsnorm(x, eps=1e-6)"],
        "after": [None, "x = norm(x)"],
    }


@pytest.mark.parametrize("row, said", [("optimizer", "expected a key"), ("depth=2", "has one value"), ("=1,2", "key")])
def test_a_row_that_says_nothing_is_refused(row: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_rows([row])


def test_all_mistakes_are_in_one_report() -> None:
    with pytest.raises(ConfigError) as raised:
        read_rows(["a", "b=1", "c=1,2", "c=3,4"])
    assert len(raised.value.mistakes) == 3


@pytest.mark.parametrize(
    "levels, part",
    [((2, 2, 2), "1/2"), ((2, 2, 2, 2), "1/2"), ((2, 2, 2, 2, 2), "1/4"), ((3, 3), "1/3"), ((2, 3, 2), "1/2")],
)
def test_a_part_is_balanced(levels: tuple[int, ...], part: str) -> None:
    """Each value of each key stands equally often, and in a regular fraction each pair of values of two keys."""
    factors = {f"k{place}": list(range(size)) for place, size in enumerate(levels)}
    whole, points = grid(factors), grid(factors, Fraction(part))
    assert len(points) == len(whole) * Fraction(part)
    assert all(point in whole for point in points) and points[0] == dict.fromkeys(factors, 0)
    for key, values in factors.items():
        assert {sum(p[key] == value for p in points) for value in values} == {len(points) // len(values)}
    if set(levels) == {2}:
        for one, other in itertools.combinations(factors, 2):
            pairs = [(p[one], p[other]) for p in points]
            assert {pairs.count(pair) for pair in itertools.product((0, 1), repeat=2)} == {len(points) // 4}


@pytest.mark.parametrize("levels, part", [((2, 2), "1/2"), ((2, 2, 2), "1/3"), ((3, 5), "1/2"), ((2, 2, 2), "1/4")])
def test_a_part_that_confounds_is_refused(levels: tuple[int, ...], part: str) -> None:
    with pytest.raises(ConfigError, match="fraction"):
        grid({f"k{place}": list(range(size)) for place, size in enumerate(levels)}, Fraction(part))


def test_rates_around_the_default_are_a_grid_whose_base_is_the_default() -> None:
    assert read_rows(["lr=auto"]) == {"lr": list(RATES)} and RATES[0] == "auto"
    assert [factor_of(rate) for rate in RATES] == [1, 0.25, 0.5, 2, 4]
    assert read_rows(["lr=auto,auto*8"]) == {"lr": ["auto", "auto*8"]}
    assert factor_of("auto * 1.5") == 1.5 and factor_of("0.01") is None and factor_of(None) is None
    assert [multiplied("auto/4", 0.5), multiplied("auto*4", 2), multiplied("auto/2", 2), multiplied("0.01", 2)] == [
        "auto/8", "auto*8", "auto", "0.02",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="above 0"):
        factor_of("auto*0")
