"""Learning rates: the same grid for every arm, until no best rate is at an edge; one rate where curves are one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.comparison.arms import arm_of, write_text
from transformula.comparison.plan import ComparisonPlan
from transformula.comparison.records import Outcome, Variant
from transformula.comparison.settings import TUNING_SEEDS, ComparisonSettings
from transformula.comparison.tuning import NARROW, ROUNDS, tune


@pytest.fixture
def make(tmp_path):
    """Makes a plan of `first` and `second` at some sizes, whose default rates halve from size to size."""
    text = write_text(tmp_path)

    def make(sizes=("only",), lower=True, **settings) -> ComparisonPlan:
        read = ComparisonSettings.read(settings)
        arms = [
            replace(arm_of(text, name, model), size=size, lr=0.04 / 2**place)
            for place, size in enumerate(sizes)
            for name, model in (("first", "pre-norm"), ("second", "rezero"))
        ]
        if read.rate is not None:
            arms = [replace(arm, lr=read.rate) for arm in arms]
        variants = [Variant(name, name, "") for name in ("first", "second")]
        tuning = [TUNING_SEEDS + 1, TUNING_SEEDS + 2]
        return ComparisonPlan("test", read, {}, variants, arms, "loss", "loss", lower, [1, 2, 3], tuning)

    return make


class Runs:
    """Runs jobs without training: the loss is a parabola in the log rate around `best`; above `most` they diverge."""

    def __init__(self, best: dict[str, float], most: float = math.inf, sign: float = 1.0) -> None:
        self.best, self.most, self.sign = best, most, sign
        self.jobs = []

    def __call__(self, jobs):
        self.jobs += jobs
        return [self.outcome(job) for job in jobs]

    def outcome(self, job) -> Outcome:
        distance = math.log2(job.lr / self.best[job.variant])
        score = None if job.lr > self.most else self.sign * (2 + 0.1 * distance**2 + 1e-3 * job.seed)
        status = "done" if score is not None else "diverged"
        return Outcome(job.variant, job.size, "tune", job.seed, job.lr, job.key, status, score)

    def rates(self, variant: str, size: str = "only") -> list[float]:
        return sorted({job.lr for job in self.jobs if (job.variant, job.size) == (variant, size)})


def test_arms_of_one_curve_share_the_rate_of_its_best(make) -> None:
    runs = Runs({"first": 0.048, "second": 0.048})
    tuned = tune(make(), runs)
    assert set(tuned.rates.values()) == {0.0475683}  # a quarter of an octave above 0.04
    assert runs.rates("first") == runs.rates("second") == [0.01, 0.02, 0.04, 0.08, 0.16]
    assert {job.seed for job in runs.jobs} == {TUNING_SEEDS + 1, TUNING_SEEDS + 2}
    assert len(tuned.outcomes) == len(runs.jobs) == 20 and tuned.notes == []
    assert tuned.sensitivity["first", "only"] > 0


def test_arms_whose_curves_differ_have_each_its_own(make) -> None:
    tuned = tune(make(), Runs({"first": 0.04, "second": 0.0205}))
    assert tuned.rates == {("first", "only"): 0.04, ("second", "only"): 0.02}


@pytest.mark.parametrize("best", [0.0011, 0.9])
def test_a_grid_goes_on_until_its_best_is_inside_for_all_arms_alike(make, best) -> None:
    runs = Runs({"first": 0.04, "second": best})
    tuned = tune(make(), runs)
    rate = tuned.rates["second", "only"]
    assert abs(math.log2(rate / best)) <= 0.25 and min(runs.rates("second")) < rate < max(runs.rates("second"))
    assert runs.rates("first") == runs.rates("second") and len(runs.rates("first")) > 5
    assert tuned.rates["first", "only"] == 0.04


def test_a_grid_ends_in_time_and_the_report_says_so(make) -> None:
    runs = Runs({"first": 0.04, "second": 900.0})
    tuned = tune(make(), runs)
    assert len(runs.rates("second")) == 5 + ROUNDS
    assert tuned.notes == ["second: the best learning rate, 2.56, is still at the edge of those tried"]


def test_where_all_rates_diverge_lower_ones_are_tried(make) -> None:
    runs = Runs({"first": 0.04, "second": 0.0005}, most=0.005)
    tuned = tune(make(), runs)
    assert 0 < tuned.rates["second", "only"] <= 0.005


def test_where_nothing_works_the_default_is_taken(make) -> None:
    tuned = tune(make(), Runs({"first": 0.04, "second": 0.04}, most=0.0))
    assert tuned.rates["second", "only"] == 0.04
    assert any(note.startswith("second: no run that tuned") for note in tuned.notes)


def test_more_may_be_better(make) -> None:
    assert tune(make(lower=False), Runs({"first": 0.02, "second": 0.08}, sign=-1.0)).rates == {
        ("first", "only"): 0.02,
        ("second", "only"): 0.08,
    }


def test_at_a_larger_size_the_grid_is_smaller_around_the_best_of_the_size_before(make) -> None:
    runs = Runs({"first": 0.08, "second": 0.01})
    plan = make(sizes=("small", "large"))
    tune(plan, lambda jobs: Runs({"first": 0.08, "second": 0.04})(jobs))
    tuned = tune(plan, runs)
    first = runs.rates("first", "large")[:NARROW]
    assert first == [0.02, 0.04, 0.08]  # the best at the small size was 0.08, and the default has halved
    assert tuned.rates["first", "large"] == 0.08
    assert len(runs.rates("first", "large")) == len(runs.rates("second", "large"))


def test_a_shared_rate_is_as_far_from_each_default_as_the_bases(make) -> None:
    plan = make(lr="shared")
    arms = [plan.arms[0], replace(plan.arms[1], lr=0.004)]
    runs = Runs({"first": 0.08})
    tuned = tune(replace(plan, arms=arms), runs)
    assert tuned.rates == {("first", "only"): 0.08, ("second", "only"): 0.008}
    assert {job.variant for job in runs.jobs} == {"first"}


def test_a_number_is_the_rate_of_all(make) -> None:
    runs = Runs({})
    assert tune(make(lr=0.03), runs).rates == {("first", "only"): 0.03, ("second", "only"): 0.03}
    assert runs.jobs == []
