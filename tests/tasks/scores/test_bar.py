"""The bar that a trained model is to pass, and what it must have seen to pass it."""

from __future__ import annotations

import math

import pytest

from transformula.tasks.scores.bar import bar_of, in_words, passed_at, passes


def test_the_bar_is_the_3_gram_of_texts_and_else_the_worst_of_the_simple_models() -> None:
    assert bar_of({"4-gram": 2.9, "3-gram": 2.5}, lower=True) == ("3-gram", 2.5)
    assert bar_of({"unigram": 3.0, "byte 3-gram": 2.0}, lower=True) == ("unigram", 3.0)
    assert bar_of({"TF-IDF": 79.1, "most frequent label": 50.9}, lower=False) == ("most frequent label", 50.9)
    assert bar_of({}, lower=True) is None
    assert in_words("3-gram") == "a 3-gram" and in_words("copy") == 'the simple model "copy"'


def test_as_good_as_the_bar_is_not_better() -> None:
    assert not passes(2.0, 2.0, lower=True) and not passes(2.0, 2.0, lower=False)
    assert passes(1.9, 2.0, lower=True) and passes(2.1, 2.0, lower=False)


def curve(tokens: float) -> float:
    """A power law, as losses go: 2 at a million tokens."""
    return 2 * (tokens / 1e6) ** -0.1


@pytest.mark.parametrize("most", [1e6, 2e5, 5e4])
def test_where_a_power_law_passes_the_bar_is_found_by_what_was_seen_or_beyond(most: float) -> None:
    points = [(t, curve(t)) for t in (n * most / 20 for n in range(1, 21))]
    assert passed_at(points, curve(1e6 - 1), lower=True) == pytest.approx(1e6, rel=0.06)


def test_what_a_curve_cannot_say_is_said_to_be_infinite() -> None:
    flat = [(t, 3.0) for t in (1e3, 2e3, 3e3)]
    rising = [(1e3, 2.5), (2e3, 2.8), (3e3, 3.0)]
    far = [(t, curve(t)) for t in (1e3, 2e3, 3e3)]
    assert [passed_at(points, 0.9, lower=True) for points in (flat, rising, far, [], [(1e3, 3.0)])] == [math.inf] * 5
    assert passed_at([(1e3, 10.0), (2e3, 20.0)], 50.0, lower=False) == math.inf
    assert passed_at([(1e3, 10.0), (2e3, 60.0)], 50.0, lower=False) == 2e3
