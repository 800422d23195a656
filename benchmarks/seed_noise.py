"""Noise between seeds, recorded from real runs, and what a comparison makes of it where there is no difference.

    python benchmarks/seed_noise.py                # 80 runs of a tiny model, 3 minutes on one core
    python benchmarks/seed_noise.py --seeds 40     # goes on from these

The same formula is trained under four names. Names of labels decide the initial values, so at one seed the four runs
read the same batches and start from other weights: their differences are what paired runs of equal variants differ by.
Of these runs 400 comparisons are drawn, each of 6 seeds, with two of the four runs of each seed in a random order.
"better" and "worse" may be said in at most 5 % of them, within the error of 400.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from figures import keep

from transformula.comparison.jobs import jobs_of
from transformula.comparison.records import Arm, Outcome, RunCosts
from transformula.comparison.running import run_job
from transformula.comparison.statistics.terms import Terms
from transformula.comparison.statistics.verdicts import judge
from transformula.comparison.store import Store

NAMES = ("a", "b", "c", "d")
SIZES = {"depth": 2, "width": 16, "heads": 2, "context": 32, "batch": 8, "steps": 120}
RATE, PAIRS, COMPARISONS, LIMIT = 4e-3, 6, 400, 0.05
COSTS = RunCosts(1, 1, 1.0, 1.0, 1.0, 1, 1)


def recorded(data: str, seeds: int, store: Store) -> np.ndarray:
    """(seeds, names): the score of each run, nats or bits as the task says."""
    scores = []
    for name in NAMES:
        formula = f"x = x + attention.{name}(norm(x)); x = x + mlp.{name}{name}(norm(x))"
        config = {"model": formula, "after": "x = norm(x)", "data": data, "tokenizer": "characters", **SIZES}
        jobs = jobs_of(Arm(name, "only", config, COSTS, RATE), "confirm", [RATE], range(1, seeds + 1))
        scores.append([run_job(job, store).score for job in jobs])
    return np.array(scores, dtype=float).T


def comparison(rng: np.random.Generator, scores: np.ndarray) -> tuple[list[Outcome], list[Arm]]:
    """Outcomes of 6 of the seeds, with two of the runs of each."""
    outcomes = []
    for seed in rng.choice(len(scores), min(PAIRS, len(scores)), replace=False):
        for name, run in zip(("base", "twin"), rng.choice(len(NAMES), 2, replace=False), strict=True):
            score = float(scores[seed, run])
            outcomes.append(Outcome(name, "only", "confirm", int(seed), RATE, "", "done", score))
    return outcomes, [Arm(name, "only", {}, COSTS, RATE) for name in ("base", "twin")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--store", default="comparisons/seed-noise", help="the runs, which are used again")
    options = parser.parse_args()
    scores = recorded(options.data, options.seeds, Store(options.store))
    rng = np.random.default_rng(0)
    words = [judge(*comparison(rng, scores), Terms("base"))[0].word for _ in range(COMPARISONS)]
    false = sum(word in ("better", "worse") for word in words) / COMPARISONS
    own = (scores - scores.mean(axis=1, keepdims=True)) * (len(NAMES) / (len(NAMES) - 1)) ** 0.5
    noise = 2**0.5 * float(own.std())
    print(f"standard deviation of a paired difference: {noise:.4f}, {100 * noise / scores.mean():.2f} % of the score")
    print(f"{100 * false:.1f} % of {COMPARISONS} comparisons without a difference say better or worse; limit: 5 %")
    path = keep("seed_noise", {"scores": scores.tolist(), "noise": noise, "false": false}, [])
    print(f"wrote {Path(path).name}")
    if false > LIMIT + 3 * (LIMIT * (1 - LIMIT) / COMPARISONS) ** 0.5:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
