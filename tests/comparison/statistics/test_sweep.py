"""The best of several learning rates."""

from __future__ import annotations

import pytest

from tests.comparison.statistics.simulated import outcome
from transformula.comparison.records import Outcome, Variant
from transformula.comparison.statistics.sweep import means, sweeps

LEVELS = {0.01: "auto/2", 0.02: "auto", 0.04: "auto*2"}


def variants(**others: str) -> list[Variant]:
    said = "".join(f", {key}={value}" for key, value in others.items())
    return [
        Variant(f"lr={level}{said}", "pre-norm", "layer: x = x", levels={"lr": level, **others})
        for level in LEVELS.values()
    ]


def runs(of: list[Variant], scores: dict[float, list[float | None]]) -> list[Outcome]:
    names = dict(zip(LEVELS, (v.name for v in of), strict=True))
    return [
        outcome(names[lr], seed, score, lr=lr) for lr, own in scores.items() for seed, score in enumerate(own)
    ]


def rates(of: list[Variant]) -> dict[tuple[str, str], float]:
    return {(v.name, "only"): lr for v, lr in zip(of, LEVELS, strict=True)}


def test_the_best_mean_is_found_for_each_model_and_setting() -> None:
    cold, warm = variants(warmup="0"), variants(warmup="0.1")
    made = runs(cold, {0.01: [1.5, 1.6], 0.02: [1.2, 1.3], 0.04: [1.4, 1.5]})
    made += runs(warm, {0.01: [1.1, 1.2], 0.02: [1.2, 1.3], 0.04: [1.4, 1.5]})
    first, second = sweeps([*cold, *warm], made, rates(cold) | rates(warm), lower=True)
    assert (first.curve.best, first.curve.at_edge, first.others, first.seeds) == (0.02, False, "warmup=0", 2)
    assert (second.curve.best, second.curve.at_edge, second.others) == (0.01, True, "warmup=0.1")
    assert first.variants[0.02].name == "lr=auto, warmup=0"
    assert {rate: first.typed(rate) for rate in first.variants} == LEVELS
    more = sweeps(cold, made, rates(cold), lower=False)[0]
    assert more.curve.best == 0.01


def test_an_arm_that_was_stopped_early_is_taken_by_its_pairs() -> None:
    """Its one seed was an easy one: its mean alone would be the best."""
    found = means({0.01: {0: 1.0, 1: 2.0, 2: 2.0}, 0.02: {0: 1.1}})
    assert found == {0.01: pytest.approx(5 / 3), 0.02: pytest.approx(5 / 3 + 0.1)}


def test_a_rate_at_which_a_run_diverged_has_no_mean_and_is_counted() -> None:
    own = variants()
    made = runs(own, {0.01: [1.5, 1.6], 0.02: [1.2, 1.3], 0.04: [1.0, None]})
    [found] = sweeps(own, made, rates(own), lower=True)
    assert found.curve.best == 0.02 and not found.curve.at_edge and found.lost == {0.01: 0, 0.02: 0, 0.04: 1}
    assert sweeps(own, runs(own, {lr: [None] for lr in LEVELS}), rates(own), lower=True) == []


def test_variants_without_rates_of_their_own_are_no_sweep() -> None:
    plain = [Variant("a", "a", "layer: x = x"), Variant("b", "b", "layer: x = x", levels={"warmup": "0"})]
    assert sweeps(plain, [outcome("a", 0, 1.0)], {("a", "only"): 0.02}, lower=True) == []
