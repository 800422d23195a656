"""Comparisons made of random numbers: outcomes with a known difference, and arms that cost the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from transformula.comparison.records import Arm, Outcome, RunCosts
from transformula.comparison.statistics.terms import Terms
from transformula.comparison.statistics.verdicts import judge
from transformula.structured import load_json

COSTS = RunCosts(1000, 900, 6e3, 1e6, 1e7, 100_000, 100, 0.01)
LOSS = 1.5  # of the base
SEED_DEVIATION, PAIR_DEVIATION = 0.010, 0.006  # of a run's score by its seed; of what a variant adds to it

RECORD = np.array(load_json(Path(__file__).parents[3] / "benchmarks/results/seed_noise.json")["scores"])
"""(seeds, runs of equal formulas, learning rates)"""

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Heavy tails: Student's t of three degrees of freedom, of variance 1."""
    return rng.standard_t(3, shape) / 3**0.5


def arm(variant: str, size: str = "only", **costs: float) -> Arm:
    return Arm(variant, size, {}, replace(COSTS, **costs), 1e-3)


def outcome(variant: str, seed: int, score: float | None, size: str = "only", **more: object) -> Outcome:
    status = "done" if score is not None else "diverged"
    settings = {"stage": "confirm", "lr": 1e-3, "key": "", "status": status, "score": score, **more}
    return Outcome(variant=variant, size=size, seed=seed, **settings)  # type: ignore[arg-type]


def outcomes_of(scores: Mapping[str, Sequence[float | None]], size: str = "only") -> list[Outcome]:
    """Runs that confirm, with seeds 1, 2, ...; None: the run diverged."""
    return [outcome(name, seed, score, size) for name, all_ in scores.items() for seed, score in enumerate(all_, 1)]


def simulated(
    rng: np.random.Generator, seeds: int, differences: Sequence[float], draw: Draw = normal
) -> tuple[list[Outcome], list[Arm]]:
    """A base, and a variant for each true difference. Runs of one seed share its luck, and have some of their own."""
    luck = LOSS + SEED_DEVIATION * draw(rng, (seeds,))
    own = PAIR_DEVIATION / 2**0.5 * draw(rng, (len(differences) + 1, seeds))
    names = ["base", *(f"variant {n}" for n in range(1, len(differences) + 1))]
    shifts = [0.0, *differences]
    scores = {name: (luck + row + shift).tolist() for name, row, shift in zip(names, own, shifts, strict=True)}
    return outcomes_of(scores), [arm(name) for name in names]


def drawn_from_record(rng: np.random.Generator, pairs: int) -> tuple[list[Outcome], list[Arm]]:
    """A base and its twin: at some of the recorded seeds, two of the runs of equal formulas in a random order, at the
    middle one of the rates."""
    seeds = RECORD[rng.choice(len(RECORD), pairs, replace=False), :, RECORD.shape[2] // 2]
    base, twin = rng.permuted(seeds, axis=1)[:, :2].T.tolist()
    return outcomes_of({"base": base, "twin": twin}), [arm("base"), arm("twin")]


def verdicts_of(scores: Mapping[str, Sequence[float | None]], **settings: object):
    """The verdicts on all but the first, which is the base."""
    arms = [arm(name) for name in scores]
    return judge(outcomes_of(scores), arms, Terms(arms[0].variant, **settings))  # type: ignore[arg-type]
