"""Two kinds of chance in a difference: another seed, and another validation set.

The difference of pair s on part j of the validation set, of weight w_j (its bytes or tokens), is

    d_sj = m + seed_s + part_j + e_sj,   variances of part_j and e_sj proportional to 1 / w_j

The t-test over seeds keeps the validation set as it is: it measures the deviation of seed_s, with that of the mean of
e_sj over parts. What is true of this set need not be true of another one; how much the mean over seeds would move there
follows from part_j. Analysis of variance, two-way without repetition (Searle, Casella and McCulloch 1992).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..records import Outcome
from .pairs import Pairs, runs_of

SAME = 1e-3  # relative: how far a score may be from the weighted mean of its parts, up to one unit for all runs


def variance_components(differences: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Standard deviations from differences (pairs, parts), two or more of each: `seeds`, of the pairs' means; `seeds
    alone`, that without the part that the interaction of seeds and parts makes; `evaluation`, of the mean over pairs
    if the parts were drawn again."""
    pairs, parts = differences.shape
    total = weights.sum()
    by_pair = differences @ weights / total
    by_part = differences.mean(axis=0)
    mean = by_pair.mean()
    rest = differences - by_pair[:, None] - by_part + mean
    interaction = float((rest**2 @ weights).sum() / (pairs - 1) / (parts - 1) / total)
    seeds = float(by_pair.var(ddof=1))
    return {
        "seeds": seeds**0.5,
        "seeds alone": max(0.0, seeds - interaction) ** 0.5,
        "evaluation": float(((by_part - mean) ** 2 @ weights) / (parts - 1) / total) ** 0.5,
    }


def noise_of_pairs(outcomes: Sequence[Outcome], variant: str, base: str, size: str, pairs: Pairs) -> dict[str, float]:
    """The components, in the score's unit; only `seeds` where the score is no mean over parts (BLEU, accuracy)."""
    ours, theirs = runs_of(outcomes, variant, size), runs_of(outcomes, base, size)
    values = [value for _, value in pairs.differences]
    if len(values) < 2:
        return {}
    plain = {"seeds": float(np.std(values, ddof=1))}
    unit = unit_of_rows([runs[seed] for seed in pairs.seeds for runs in (ours, theirs)])
    if unit is None or not any(values):
        return plain
    rows = np.array([np.subtract(ours[seed].rows, theirs[seed].rows) for seed in pairs.seeds])
    return plain | {
        name: value * unit
        for name, value in variance_components(rows, np.asarray(theirs[pairs.seeds[0]].weights, dtype=float)).items()
        if name != "seeds"
    }


def unit_of_rows(runs: Sequence[Outcome]) -> float | None:
    """What turns the weighted mean of a run's parts into its score; None where one factor does not serve all runs, or
    the parts are not the same."""
    weights = tuple(runs[0].weights)
    if len(weights) < 2 or any(tuple(run.weights) != weights or len(run.rows) != len(weights) for run in runs):
        return None
    means = [float(np.average(run.rows, weights=run.weights)) for run in runs]
    if not all(means):
        return None
    units = [(run.score or 0.0) / mean for run, mean in zip(runs, means, strict=True)]
    return units[0] if max(units) - min(units) <= SAME * abs(units[0]) else None


def combined_deviation(noise: Mapping[str, float], pairs: int) -> float:
    """Standard deviation of the mean difference over new seeds, newly tuned rates and a new validation set."""
    common = noise.get("evaluation", 0.0) ** 2 + noise.get("rates", 0.0) ** 2
    return float((noise["seeds"] ** 2 / pairs + common) ** 0.5)
