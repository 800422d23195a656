"""Speed-ups between two sizes, and the law fitted to three."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.comparison.statistics.simulated import arm, outcome
from transformula.comparison.records import Arm, Outcome
from transformula.comparison.statistics import fit
from transformula.comparison.statistics.fit import fit_scaling
from transformula.comparison.statistics.rates import fit_rates
from transformula.comparison.statistics.scale import speedups, timed
from transformula.comparison.statistics.terms import Terms
from transformula.comparison.statistics.verdicts import judge
from transformula.errors import InputError

EXPONENT, TRUE = 0.12, {"base": 1.0, "fast": 1.5, "slow": 0.8}  # speed-ups in FLOPs at equal loss
FLOPS = {"small": 1e3, "large": 3e3, "huge": 9e3}  # a token


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what does not depend on the width of the intervals."""
    monkeypatch.setattr(fit, "RESAMPLES", 10)


def made(
    sizes: list[str], floor: float = 0.0, noise: float = 0.002, seeds: int = 6, draw: int = 0
) -> tuple[list[Outcome], list[Arm]]:
    """Runs whose loss is E + 2 (C s)^-a, C in units of the small size, for a speed-up of s."""
    rng = np.random.default_rng(draw)
    arms = [
        arm(name, size, flops_per_token=FLOPS[size], step_seconds=FLOPS[size] / 1e5) for size in sizes for name in TRUE
    ]
    runs = [
        outcome(
            a.variant, seed, floor + 2.0 * (FLOPS[a.size] / 1e3 * TRUE[a.variant]) ** -EXPONENT + noise * own, a.size
        )
        for a in arms
        for seed, own in enumerate(rng.standard_normal(seeds))
    ]
    return runs, arms


def test_speedup_between_two_sizes_is_the_true_one() -> None:
    for name in ("fast", "slow"):
        found = speedups(*made(["small", "large"], noise=1e-6), name, "base", lower=True)
        for size in ("small", "large"):
            assert found[size]["flops"] == pytest.approx((TRUE[name],) * 3, rel=1e-3)
            assert found[size]["seconds"] == pytest.approx((TRUE[name],) * 3, rel=1e-3)


def test_a_variant_that_costs_more_is_less_of_a_speedup() -> None:
    runs, arms = made(["small", "large"], noise=1e-6)
    dear = [arm(a.variant, a.size, flops_per_token=FLOPS[a.size] * (1.5 if a.variant == "fast" else 1)) for a in arms]
    assert speedups(runs, dear, "fast", "base", lower=True)["large"]["flops"][0] == pytest.approx(1.0, rel=1e-3)


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
    assert "equal time (fast takes 1.50 times as much as the base, 99.9 % interval 1.4" in claim(
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


def test_runs_of_different_days_say_nothing_of_a_ratio_of_times() -> None:
    """The base's are of the store: what the plan measured side by side stays."""
    arms = [arm("base"), replace(arm("fast"), costs=replace(arm("fast").costs, time_ratio=(0.9, 0.8, 0.95)))]
    confirmed = runs({"base": [30.0, 31.0, 32.0, 33.0], "fast": [15.0, 15.5, 16.0, 16.5]})
    _, together = timed(arms, confirmed, "base")
    assert together.costs.ratio is not None and together.costs.ratio.value == pytest.approx(0.5)
    later = [replace(o, ended=o.seconds * 100) if o.variant == "fast" else o for o in confirmed]
    base, apart = timed(arms, later, "base")
    assert apart.costs.ratio == (0.9, 0.8, 0.95) and apart.costs.seconds == pytest.approx(0.9 * 31.5)
    assert base.costs.seconds == pytest.approx(31.5)


def test_a_ratio_of_times_without_a_bound_gives_no_speedup_in_seconds() -> None:
    """Two pairs of runs say nothing of how far their ratio may be off."""
    runs, arms = made(["small", "large"], noise=1e-6, seeds=2)
    arms = [replace(a, costs=replace(a.costs, time_ratio=(0.7, 0.0, math.inf))) for a in arms]
    assert speedups(runs, arms, "fast", "base", lower=True)["large"].keys() == {"flops"}


def test_intervals_of_speedups_cover_the_truth() -> None:
    hits = []
    for draw in range(60):
        found = speedups(*made(["small", "large"], noise=0.01, draw=draw), "fast", "base", lower=True)
        hits += [low <= TRUE["fast"] <= high for size in found.values() for _, low, high in [size["flops"]]]
    assert len(hits) == 120 and np.mean(hits) >= 0.9


def test_no_speedup_where_the_sizes_say_nothing() -> None:
    """One size; a score of which more is better; a base that does not improve; a gain beyond the other size."""
    assert speedups(*made(["small"]), "fast", "base", lower=True) == {"small": {}}
    assert not any(speedups(*made(["small", "large"]), "fast", "base", lower=False).values())
    assert not any(speedups(*made(["small", "large"], noise=3.0), "fast", "base", lower=True).values())
    runs, arms = made(["small", "large"])
    shifted = [outcome(o.variant, o.seed, (o.score or 0) - 0.5 * (o.variant == "fast"), o.size) for o in runs]
    assert not any(speedups(shifted, arms, "fast", "base", lower=True).values())


def test_fit_of_three_sizes_recovers_the_law(few_resamples: None) -> None:
    law = fit_scaling(*made(["small", "large", "huge"], floor=1.0, noise=1e-5), "base")
    assert law is not None and law.floor == pytest.approx(1.0, abs=0.05)
    assert law.exponent[0] == pytest.approx(EXPONENT, rel=0.05)
    assert {name: law.speedups[name][0] for name in law.speedups} == pytest.approx({"fast": 1.5, "slow": 0.8}, rel=0.01)
    assert law.loss("base", 3e8) == pytest.approx(1.0 + 2.0 * 3**-EXPONENT, rel=1e-3)


def test_fit_does_not_extrapolate_and_needs_three_sizes(few_resamples: None) -> None:
    law = fit_scaling(*made(["small", "large", "huge"], floor=1.0), "base")
    assert law is not None
    with pytest.raises(InputError, match="outside the sizes that were run, 1e\\+08 to 9e\\+08"):
        law.loss("base", 1e9)
    assert fit_scaling(*made(["small", "large"]), "base") is None
    runs, arms = made(["small", "large", "huge"])
    without = [o for o in runs if (o.variant, o.size) != ("fast", "huge")]
    kept = fit_scaling(without, arms, "base")
    assert kept is not None and set(kept.speedups) == {"slow"}


def tuned(best: dict[str, float], sizes: list[str], noise: float = 0.02) -> list[Outcome]:
    """Runs that tuned the rates of two arms or more, best at so many octaves from the default."""
    rng = np.random.default_rng(7)
    return [
        outcome(name, seed, 2 + 0.1 * (place - place_of_best) ** 2 + noise * rng.standard_normal(), size,
                stage="tune", lr=1e-3 * 2.0**place)
        for size in sizes
        for name, place_of_best in best.items()
        for place in range(-2, 3)
        for seed in (100, 101)
    ]  # fmt: skip


def test_what_a_rate_may_cost_is_in_the_intervals_unless_both_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two sizes and of three: at equal losses, rates that were tuned apart make the interval wider."""
    monkeypatch.setattr(fit, "RESAMPLES", 60)
    apart, alike = ({"base": 0.0, "fast": best, "slow": 0.0} for best in (1.0, 0.0))
    runs, arms = made([*FLOPS], floor=1.0)
    two = [a for a in arms if a.size != "huge"]
    widths, laws = [], []
    for best in (apart, alike):
        known = [*runs, *tuned(best, [*FLOPS])]
        fits = fit_rates(known, arms, lower=True)
        found = [speedups(known, two, "fast", "base", True, each)["large"]["flops"] for each in (fits, {})]
        widths.append([high / low for _, low, high in found])
        law, plain = fit_scaling(known, arms, "base"), fit_scaling(runs, arms, "base")
        assert law is not None and plain is not None
        laws.append([one.speedups["fast"][2] / one.speedups["fast"][1] for one in (law, plain)])
    for (far, far_plain), (near, near_plain) in (widths, laws):
        assert far > 1.05 * far_plain
        assert near == pytest.approx(near_plain, rel=0.05)


@pytest.mark.slow
def test_intervals_of_the_fit_cover_the_truth() -> None:
    laws = [fit_scaling(*made([*FLOPS], floor=1.0, noise=0.005, draw=draw), "base") for draw in range(40)]
    hits = [low <= TRUE[name] <= high for law in laws if law for name, (_, low, high) in law.speedups.items()]
    assert len(hits) == 80 and np.mean(hits) >= 0.88
