"""Verdicts: the word that runs earn, the sentence, and what may be claimed."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.comparison.statistics.simulated import arm, outcome, outcomes_of, verdicts_of
from transformula.comparison.records import Outcome
from transformula.comparison.statistics.terms import Terms
from transformula.comparison.statistics.verdicts import judge
from transformula.errors import MissingExtra

BASE = [1.50, 1.52, 1.49, 1.51, 1.53, 1.48]
WIGGLE = [0.002, -0.003, 0.001, 0.003, -0.002, -0.001]


def moved(by: float, scores: list[float] = BASE, times: float = 1.0) -> list[float]:
    return [score + by + times * more for score, more in zip(scores, WIGGLE, strict=True)]


def test_better_and_worse_follow_the_direction_of_the_score() -> None:
    for lower, words in ((True, ["better", "worse"]), (False, ["worse", "better"])):
        verdicts = verdicts_of({"base": BASE, "less": moved(-0.02), "more": moved(0.02)}, lower=lower, unit="bits")
        assert [v.word for v in verdicts] == words
        assert [v.gain > 0 for v in verdicts] == [v.word == "better" for v in verdicts]
        assert "0.0200 bits lower, 95 % interval 0.0175 to 0.0225" in verdicts[0].sentence
        assert "0.0200 bits higher" in verdicts[1].sentence


def test_holm_counts_all_variants_of_a_size() -> None:
    """A difference that is one at 5 % when it stands alone is none among eight."""
    alone = verdicts_of({"base": BASE, "v": moved(-0.0028)})[0]
    others = {f"other {n}": moved(0.0, times=1 + n / 10) for n in range(7)}
    among = verdicts_of({"base": BASE, "v": moved(-0.0028), **others})[0]
    assert alone.word == "better" and among.p == alone.p and among.p_holm == pytest.approx(8 * (alone.p or 0))
    assert among.word == "inconclusive" and among.needed and among.needed > 6
    assert "after correction" in among.sentence


def test_identical_runs_are_no_difference() -> None:
    [verdict] = verdicts_of({"base": BASE, "same": BASE})
    assert verdict.word == "no difference found" and "equal in 6 paired seeds" in verdict.sentence
    assert verdict.interval == (0.0, 0.0) and verdict.p == 1.0 and verdict.detectable == 0.0
    assert verdicts_of({"base": BASE, "same": BASE}, effect=0.001)[0].word == "equivalent"
    [verdict] = verdicts_of({"base": BASE, "rounded": [score * (1 + 1e-8) for score in BASE]})
    assert verdict.mean == 0.0


@pytest.mark.parametrize(
    "effect, word", [(0.01, "equivalent"), (0.0035, "no difference found"), (0.001, "inconclusive")]
)
def test_what_no_difference_means_depends_on_the_effect(effect: float, word: str) -> None:
    [verdict] = verdicts_of({"base": BASE, "v": moved(0.0017)}, effect=effect)
    assert verdict.word == word, verdict
    assert (verdict.needed is not None) == (word == "inconclusive")
    assert verdict.equivalence is not None and (verdict.equivalence < 0.05) == (word == "equivalent")


def test_without_an_effect_a_hint_is_inconclusive_and_no_hint_is_none() -> None:
    hint, none = verdicts_of({"base": BASE, "hint": moved(0.0018), "none": moved(0.0002)})
    assert hint.word == "inconclusive" and hint.needed and f"needs about {hint.needed} seeds" in hint.sentence
    assert none.word == "no difference found"
    assert none.sentence.startswith("No difference between none and base larger than 0.0027 was found")
    assert "0.0027 are not ruled out" in none.may_not


def test_equal_scores_at_every_seed_are_said_to_be_that() -> None:
    [verdict] = verdicts_of({"base": BASE, "v": BASE})
    assert verdict.word == "no difference found" and "equal in 6 paired seeds" in verdict.sentence
    assert "v and base have equal scores at every seed" in verdict.may and "not ruled out" not in verdict.may_not


def test_a_small_difference_is_said_to_be_less_than_what_matters() -> None:
    [verdict] = verdicts_of({"base": BASE, "v": moved(-0.01)}, effect=0.05)
    assert verdict.word == "better" and "less than the 0.05 that matter" in verdict.sentence


def test_divergence_is_an_outcome() -> None:
    """A run that is not a number and one above twice the base's loss."""
    scores: list[float | None] = [None, 3.2, *moved(0.01)[2:]]
    [verdict] = verdicts_of({"base": BASE, "v": scores})
    assert verdict.word == "unstable" and verdict.diverged == (2, 6) and verdict.base_diverged == (0, 6)
    assert [seed for seed, _ in verdict.differences] == [3, 4, 5, 6]
    assert "v is unstable: 2 of 6 runs diverged, and 0 of 6 of base (exact p = 0.50)" in verdict.sentence
    [verdict] = verdicts_of({"base": BASE, "v": [None] * 6})
    assert verdict.word == "unstable" and verdict.mean is None and verdict.diverged == (6, 6)


@pytest.mark.parametrize(("at_the_start", "word"), [(3.3, "worse"), (2.9, "unstable")])
def test_a_run_that_learned_did_not_diverge_however_good_the_base_is(at_the_start: float, word: str) -> None:
    """The base copies without a mistake, and the variant hardly at all."""
    runs = outcomes_of({"base": [0.001 + 1e-5 * n for n in range(6)], "v": [3.1 + 0.01 * n for n in range(6)]})
    runs = [replace(run, curve=((1, 10, 0.1, at_the_start), (2, 20, 0.2, run.score or 0.0))) for run in runs]
    [verdict] = judge(runs, [arm("base"), arm("v")], Terms("base"))
    assert verdict.word == word and verdict.diverged == (6 if word == "unstable" else 0, 6)


def test_a_base_that_diverges_is_beaten_by_counts() -> None:
    [verdict] = verdicts_of({"base": [None] * 6, "v": BASE})
    assert verdict.word == "better" and verdict.p == pytest.approx(0.03125) and verdict.mean is None
    assert verdicts_of({"base": [None] * 4, "v": BASE[:4]})[0].word == "inconclusive"


def test_a_variant_is_unstable_only_where_it_diverges_more_often_than_the_base() -> None:
    [verdict] = verdicts_of({"base": [None] * 6, "v": [None] * 6}, effect=0.01)
    assert verdict.word == "inconclusive" and verdict.needed is None
    assert "6 of 6 runs diverged, and 6 of 6 of base; it needs settings with which runs end" in verdict.sentence
    assert "6 of 6 runs of v diverged, and 6 of 6 of base" in verdict.may
    [verdict] = verdicts_of({"base": [None] * 5 + [1.5], "v": [None] * 6})
    assert verdict.word == "unstable"


def test_runs_that_fail_are_left_out_and_others_are_paired_by_seed() -> None:
    runs = outcomes_of({"base": BASE, "v": moved(-0.02)})
    runs[-1] = replace(runs[-1], status="failed", score=None)
    [verdict] = judge([r for r in runs if (r.variant, r.seed) != ("base", 1)], [arm("base"), arm("v")], Terms("base"))
    assert [seed for seed, _ in verdict.differences] == [2, 3, 4, 5] and verdict.diverged == (0, 5)
    assert verdict.word == "better"


def test_runs_without_any_pair_are_compared_as_such() -> None:
    runs = [outcome("base", seed, score) for seed, score in enumerate(BASE)]
    runs += [outcome("v", 10 + seed, score) for seed, score in enumerate(moved(0.2))]
    [verdict] = judge(runs, [arm("base"), arm("v")], Terms("base"))
    assert verdict.word == "worse" and not verdict.differences and "without pairs" in verdict.sentence
    assert verdicts_of({"base": [1.5], "v": [1.6]})[0].word == "inconclusive"
    assert verdicts_of({"base": [], "v": []})[0].word == "inconclusive"


def test_three_seeds_are_an_indication() -> None:
    [verdict] = verdicts_of({"base": BASE[:3], "v": [score - 0.1 for score in moved(0)[:3]]})
    assert verdict.word == "better" and verdict.may.startswith("An indication only, from 3 pairs")
    assert "established" in verdict.may_not


def test_what_may_not_be_claimed_follows_from_how_the_runs_were_made() -> None:
    def denied(runs=(), flops: float = 6e3, **settings: object) -> str:
        all_runs = [*outcomes_of({"base": BASE, "v": moved(-0.02)}), *runs]
        arms = [arm("base"), arm("v", flops_per_token=flops)]
        return judge(all_runs, arms, Terms("base", **settings))[0].may_not  # type: ignore[arg-type]

    assert "other sizes (one was run)" in denied()
    assert "learning rate not tuned" in denied(lr="shared") and "not tuned" not in denied()
    assert "at equal FLOPs (v takes 1.30 times" in denied(flops=7.8e3)
    assert "equal" not in denied(flops=6.1e3)
    rates = [outcome("v", 90, 1.5 + 0.1 * n, stage="tune", lr=2.0**n) for n in range(3)]
    assert "that of v is at the edge" in denied(runs=rates)
    assert "edge" not in denied(runs=[*rates, outcome("v", 90, None, stage="tune", lr=0.5)])


def test_several_sizes_are_families_of_their_own() -> None:
    sizes = ("small", "large")
    arms = [arm(name, size, flops_per_token=1e3 * 3**n) for n, size in enumerate(sizes) for name in ("base", "v")]
    runs = outcomes_of({"base": [s + 0.2 for s in BASE], "v": [s + 0.2 for s in moved(-0.02)]}, "small")
    runs += outcomes_of({"base": BASE, "v": moved(-0.02)}, "large")
    verdicts = judge(runs, arms, Terms("base"))
    assert [(v.size, v.word) for v in verdicts] == [("small", "better"), ("large", "better")]
    assert all(v.p_holm == v.p and v.sentence.startswith(f"At size {v.size}, v is better") for v in verdicts)
    assert all(v.speedup["flops"][0] > 1 for v in verdicts)


def test_noise_of_a_small_validation_set_limits_the_claim() -> None:
    """The parts of the validation set disagree about the variant, whatever the seed."""
    runs = []
    for seed, score in enumerate(BASE):
        for name, tilt in (("base", 0.0), ("v", 1.0)):
            rows = [score - 0.5 - tilt * 0.14, score + 0.5 + tilt * 0.1]
            rows = [row + tilt * WIGGLE[seed] for row in rows]
            runs.append(outcome(name, seed, sum(rows) / 2, rows=rows, weights=[10, 10]))
    [verdict] = judge(runs, [arm("base"), arm("v")], Terms("base"))
    assert verdict.word == "better" and verdict.noise["evaluation"] > 5 * abs(verdict.mean or 0)
    assert "other text" in verdict.may_not


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(MissingExtra, match=r"pip install 'transformula\[compare\]'"):
        verdicts_of({"base": BASE, "v": moved(-0.02)})


def test_rates_that_variants_state_were_not_tuned_for_each() -> None:
    """Of `vary lr=...` it was claimed that the rate was tuned for each."""
    low, high = (replace(arm(name), config={"lr": rate}, lr=rate) for name, rate in (("base", 0.01), ("v", 0.02)))
    runs = outcomes_of({"base": BASE, "v": moved(-0.02)})
    [verdict] = judge(runs, [low, high], Terms("base", unit="bits", lower=True))
    assert "tuned" not in verdict.may and "at 0.01 and 0.02 as learning rates" in verdict.may
    assert "that the best one was found (two were compared)" in verdict.may_not
    [same] = judge(runs, [low, replace(high, config={"lr": 0.01}, lr=0.01)], Terms("base", unit="bits", lower=True))
    assert "tuned for each" not in same.may and "not tuned for each variant" in same.may_not


def tuning(best: dict[str, float], noise: float = 0.01) -> list[Outcome]:
    """Runs of five rates, of parabolas whose best is so many octaves from the default."""
    rng = np.random.default_rng(6)
    return [
        outcome(name, seed, 1.5 + 0.05 * (n - at) ** 2 + noise * rng.standard_normal(), stage="tune", lr=1e-3 * 2.0**n)
        for name, at in best.items()
        for n in range(-2, 3)
        for seed in (101, 102)
    ]


@pytest.mark.parametrize("place, both", [(0.0, True), (1.5, False)])
def test_the_uncertainty_of_two_rates_is_in_the_interval_and_that_of_one_cancels(place: float, both: bool) -> None:
    confirmed = outcomes_of({"base": BASE, "v": moved(-0.02)})
    confirmed = [replace(o, lr=1e-3 * 2.0**place) if o.variant == "v" else o for o in confirmed]
    arms = [arm("base"), arm("v")]
    (plain,) = judge(confirmed, arms, Terms("base"))
    (tuned,) = judge([*tuning({"base": 0.0, "v": place}), *confirmed], arms, Terms("base"))
    assert tuned.mean == plain.mean and tuned.interval and plain.interval
    assert (tuned.interval == plain.interval) is both and (tuned.p == plain.p) is both
    assert ("rates" in tuned.noise) is not both
    assert tuned.interval[0] <= plain.interval[0] and (tuned.detectable or 0) >= (plain.detectable or 1)
    assert f"a learning rate tuned for {'both' if both else 'each'}" in tuned.may
    assert ("should these differ" in tuned.may_not) is both
