"""Noise between seeds over learning rates, recorded from real runs, and what the whole default protocol makes of it.

    python benchmarks/seed_noise.py --simulate     # 5 minutes on one core, from benchmarks/results/seed_noise.json
    python benchmarks/seed_noise.py --seeds 20     # records it again: 440 runs of a tiny model, 20 minutes on one core

The same formula is trained under two names, at learning rates half an octave apart. Names of labels decide the initial
values, so at one seed the two runs read the same batches and start from other weights. Of this record comparisons are
drawn: some seeds tune two arms, others confirm, and a coin decides for each seed which of its two runs is the base's.
`tune` and `confirm` are those of `compare`; a rate between recorded ones has the score between theirs.

    equal    the two are the same: "better" and "worse" may be said in at most 5.5 % of the comparisons
    worse    so much is added to one that the plan promises to find it in 80 % of the comparisons of 6 seeds
    moved    the best rate of one lies half an octave higher, and its best loss is the same: also no difference
    lucky    the two are the same, and each confirms at the rate with the best mean of its two runs: what a protocol
             without a fit would find

Each with 4, 6 and 10 seeds, and grids of rates that begin at several offsets from the best.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import RESULTS, keep  # noqa: E402

from transformula.comparison.compare import confirm  # noqa: E402
from transformula.comparison.jobs import jobs_of  # noqa: E402
from transformula.comparison.plan import ComparisonPlan  # noqa: E402
from transformula.comparison.records import Arm, Job, Outcome, RunCosts, Stage, Variant, Verdict  # noqa: E402
from transformula.comparison.running import run_job  # noqa: E402
from transformula.comparison.settings import ComparisonSettings  # noqa: E402
from transformula.comparison.statistics.power import LEVEL, detectable  # noqa: E402
from transformula.comparison.statistics.rates import rate_curve  # noqa: E402
from transformula.comparison.store import Store  # noqa: E402
from transformula.comparison.tuning import Tuned, tune  # noqa: E402
from transformula.structured import load_json  # noqa: E402

NAMES = ("a", "b")
SIZES = {"depth": 2, "width": 16, "heads": 2, "context": 32, "batch": 8, "steps": 120, "evaluate_every": 120}
DEFAULT = 0.025  # the default learning rate at this width
PLACES = [n / 2 for n in range(-5, 6)]  # octaves from it that are recorded
COSTS = RunCosts(1, 1, 1.0, 1.0, 1.0, 1, 1)
OFFSETS, SEEDS, COMPARISONS, LIMIT = (-0.5, -0.25, 0.0, 0.25, 0.5), (4, 6, 10), 300, 0.055

Score = Callable[[str, int, float], float | None]  # of a variant, a seed and a learning rate; None: it diverged


def rate_at(place: float) -> float:
    return float(f"{DEFAULT * 2.0**place:.6g}")


def recorded(data: str, seeds: int, store: Store) -> np.ndarray:
    """(seeds, names, rates): the score of each run."""
    scores = np.full((seeds, len(NAMES), len(PLACES)), math.nan)
    rates = [rate_at(place) for place in PLACES]
    for n, name in enumerate(NAMES):
        formula = f"x = x + attention.{name}(norm(x)); x = x + mlp.{name}{name}(norm(x))"
        config = {"model": formula, "after": "x = norm(x)", "data": data, "tokenizer": "characters", **SIZES}
        for job in jobs_of(Arm(name, "only", config, COSTS, DEFAULT), "tune", rates, range(1, seeds + 1)):
            score = run_job(job, store).score
            scores[job.seed - 1, n, rates.index(job.lr)] = math.nan if score is None else score
    return scores


class SimulatedPlan(ComparisonPlan):
    """A plan whose jobs are names, rates and seeds alone."""

    def jobs(
        self, stage: Stage, arm: Arm, rates: Sequence[float] | None = None, seeds: Sequence[int] | None = None
    ) -> list[Job]:
        chosen = (self.tuning_seeds if stage == "tune" else self.seeds) if seeds is None else seeds
        rates = self.rates(arm) if rates is None else rates
        return [Job(arm.variant, arm.size, stage, seed, rate, {}) for rate in rates for seed in chosen]


def simulated_plan(names: Sequence[str], seeds: int, default: float = DEFAULT, **settings: Any) -> SimulatedPlan:
    """The default protocol, at one size."""
    read = ComparisonSettings.read({"seeds": seeds, "sizes": 1, **settings})
    arms = [Arm(name, "only", {}, COSTS, default) for name in names]
    variants = [Variant(name, name, "") for name in names]
    return SimulatedPlan(
        "simulated", read, {}, variants, arms, "loss", "", True, read.paired_seeds, read.tuning_seeds
    )  # fmt: skip


def compared(plan: ComparisonPlan, score: Score, lucky: bool = False) -> tuple[list[Verdict], Tuned]:
    """The verdicts of a comparison whose runs have these scores, and what tuning found; `lucky`: each arm takes the
    best of the rates that were tried."""

    def run(jobs: Sequence[Job]) -> list[Outcome]:
        scores = [score(job.variant, job.seed, job.lr) for job in jobs]
        return [
            Outcome(j.variant, j.size, j.stage, j.seed, j.lr, "", "diverged" if s is None else "done", s)
            for j, s in zip(jobs, scores, strict=True)
        ]

    tuned = tune(plan, run)
    if lucky:
        curves = {arm.arm_key: rate_curve(tuned.outcomes, *arm.arm_key, plan.lower) for arm in plan.arms}
        tuned = Tuned({key: curve.best for key, curve in curves.items() if curve})
    return confirm(plan, tuned, run)[1], tuned


@dataclass(frozen=True)
class Planted:
    """What one arm differs in: `worse` is added to its score, and its rates are `moved` by so many octaves; `lucky`:
    how rates are chosen."""

    worse: float = 0.0
    moved: float = 0.0
    lucky: bool = False


def drawn(rng: np.random.Generator, scores: np.ndarray, plan: ComparisonPlan, planted: Planted) -> Score:
    """The scores of a comparison that is drawn from the record (seeds, names, rates)."""
    seeds = [*plan.tuning_seeds, *plan.seeds]
    rows = dict(zip(seeds, rng.choice(len(scores), len(seeds), replace=False), strict=True))
    sides = dict(zip(seeds, rng.permuted(np.tile([0, 1], (len(seeds), 1)), axis=1), strict=True))

    def score(variant: str, seed: int, rate: float) -> float:
        twin = variant != plan.base
        place = math.log2(rate / DEFAULT) - twin * planted.moved
        runs = scores[rows[seed], sides[seed][int(twin)]]
        return float(np.interp(place, PLACES, runs)) + twin * planted.worse

    return score


def simulate(
    scores: np.ndarray, seeds: int, offset: float, planted: Planted, comparisons: int, seed: int = 0
) -> dict[str, float]:
    """How often a difference is found, and is by a t-test of both arms at the base's rate; how many intervals hold the
    true one; how often two rates were taken."""
    from scipy.stats import ttest_rel

    rng = np.random.default_rng([seed, seeds, round(100 * offset) + 1000])
    plan = simulated_plan(("base", "twin"), seeds, rate_at(offset))
    found = held = apart = at_one_rate = 0
    noises = []
    for _ in range(comparisons):
        score = drawn(rng, scores, plan, planted)
        (verdict,), tuned = compared(plan, score, planted.lucky)
        rate = tuned.rates[plan.arms[0].arm_key]
        pairs = ([score(arm.variant, seed, rate) for seed in plan.seeds] for arm in plan.arms)
        at_one_rate += ttest_rel(*pairs).pvalue < LEVEL
        found += verdict.word in ("better", "worse")
        held += verdict.interval is not None and verdict.interval[0] <= planted.worse <= verdict.interval[1]
        apart += len(set(tuned.rates.values())) > 1
        noises.append(verdict.noise["seeds"])
    promised = power(planted.worse / float(np.mean(np.square(noises))) ** 0.5, seeds)
    shares = {"found": found, "found at one rate": at_one_rate, "held": held, "two rates": apart}
    return {"promised": promised, **{name: count / comparisons for name, count in shares.items()}}


def power(effect: float, pairs: int) -> float:
    """The chance that a t-test of so many pairs finds an effect, in deviations of their differences; 5 % for none."""
    from scipy import special

    limit = special.stdtrit(pairs - 1, 0.975)
    return float(1 - special.nctdtr(pairs - 1, effect * pairs**0.5, limit)) if effect else 0.05


def plants(scores: np.ndarray) -> dict[str, Planted]:
    """What is planted; the difference is as large as a plan for 6 seeds promises to find in 80 %, by the noise of the
    recorded runs near the best rate."""
    means = scores.mean(axis=(0, 1))
    near = scores[:, :, means.argmin() - 1 : means.argmin() + 2]
    noise = float(np.mean((near[:, 0] - near[:, 1]).var(axis=0, ddof=1))) ** 0.5
    worse = Planted(detectable(noise, 6))
    return {"equal": Planted(), "worse": worse, "moved": Planted(moved=0.5), "lucky": Planted(lucky=True)}


def row(kind: str, seeds: int, figures: dict[str, float]) -> str:
    columns = ("promised", "found", "found at the worst offset", "found at one rate", "held", "two rates")
    return " | ".join([f"| {kind}", str(seeds), *(f"{100 * figures[name]:.1f} %" for name in columns)]) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--store", default="comparisons/seed-noise", help="the runs, which are used again")
    parser.add_argument("--simulate", action="store_true", help="record nothing, use the record that is kept")
    parser.add_argument("--comparisons", type=int, default=COMPARISONS, help="drawn for each row and offset")
    given = parser.parse_args()
    if given.simulate:
        scores = np.array(load_json(RESULTS / "seed_noise.json")["scores"])
    else:
        scores = recorded(given.data, given.seeds, Store(given.store))
    figures: dict[str, dict[str, Any]] = {}
    columns = ["seeds", "promised", "found", "at the worst offset", "at one rate", "intervals that hold the truth"]
    shown = [" | ".join(["| ", *columns, "two rates |"]), f"| ---{' | ---:' * (len(columns) + 1)} |"]
    failed = False
    for kind, planted in plants(scores).items():
        for seeds in SEEDS:
            by_offset = [simulate(scores, seeds, offset, planted, given.comparisons) for offset in OFFSETS]
            mean = {key: float(np.mean([one[key] for one in by_offset])) for key in by_offset[0]}
            mean["found at the worst offset"] = max(one["found"] for one in by_offset)
            figures[f"{kind}, {seeds} seeds"] = mean
            shown.append(row(kind, seeds, mean))
            print(shown[-1], flush=True)
            error = (LIMIT * (1 - LIMIT) / given.comparisons / len(OFFSETS)) ** 0.5
            failed |= kind == "equal" and mean["found"] > LIMIT + 3 * error
    data = {"places": PLACES, "scores": np.round(scores, 5).tolist(), "comparisons": given.comparisons, **figures}
    print(f"wrote {keep('seed_noise', data, shown).name}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
