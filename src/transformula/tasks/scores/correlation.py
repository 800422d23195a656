"""Correlations of predicted numbers with reference numbers, such as similarities of sentences, from -1 to 1.

Pearson's is the covariance over both standard deviations; Spearman's is that of the ranks, where equal numbers share
the mean of theirs. Both are 0 where one side is constant. In a resample an example counts as often as it was drawn, so
that ranks are found by sums over the sorted examples, of all resamples at once.

Alone, an example has 1 minus the difference of its two ranks, as a part of the largest possible: 0 for the highest of
one side that is the lowest of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import InputError
from .measured import Measured, Numbers, check_as_many, ratio


def pearson(predicted: Sequence[float] | Numbers, references: Sequence[float] | Numbers) -> Measured:
    """sum (x - mean x) (y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2). Raises InputError."""
    x, y = numbers_of(predicted, references)
    return Measured("Pearson", f"pairs:{len(x)}", lambda counts: weighted(x, y, counts), agreement(x, y), digits=3)


def spearman(predicted: Sequence[float] | Numbers, references: Sequence[float] | Numbers) -> Measured:
    """Pearson's correlation of the ranks. Raises InputError."""
    x, y = numbers_of(predicted, references)

    def value(counts: Numbers) -> Numbers:
        return weighted(ranks(x, counts), ranks(y, counts), counts)

    return Measured("Spearman", f"pairs:{len(x)}|ties:mean", value, agreement(x, y), digits=3)


def numbers_of(predicted: Sequence[float] | Numbers, references: Sequence[float] | Numbers) -> tuple[Numbers, Numbers]:
    """Both sides as arrays. Raises InputError for a number that is not finite, or that has no other beside it."""
    check_as_many(predicted, references)
    sides = []
    for name, numbers in (("prediction", predicted), ("reference", references)):
        side = np.asarray(numbers, dtype=np.float64)
        if not np.isfinite(side).all():
            number = int(np.isfinite(side).argmin())
            raise InputError(f"{name} {number + 1:,} is {side[number]}: correlations are of finite numbers")
        sides.append(side)
    return sides[0], sides[1]


def ranks(numbers: Numbers, counts: Numbers) -> Numbers:
    """The ranks of numbers (examples,) from 1 on, where each counts as often as counts (draws, examples) has it."""
    order = np.argsort(numbers, kind="stable")
    _, group, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    through = counts[:, order].cumsum(axis=1)[:, sizes.cumsum() - 1]  # drawn of each group and of those before it
    before = np.concatenate([np.zeros((len(counts), 1)), through[:, :-1]], axis=1)
    shared_ranks: Numbers = ((before + through + 1) / 2)[:, group]
    return shared_ranks


def weighted(x: Numbers, y: Numbers, counts: Numbers) -> Numbers:
    """Pearson's correlation of numbers (examples,) or (draws, examples) under counts (draws, examples): (draws,)."""
    total = counts.sum(axis=-1, keepdims=True)
    x, y = (side - (side * counts).sum(axis=-1, keepdims=True) / total for side in (x, y))
    xy, xx, yy = ((one * other * counts).sum(axis=-1) for one, other in ((x, y), (x, x), (y, y)))
    return ratio(xy, np.sqrt(xx * yy))


def agreement(x: Numbers, y: Numbers) -> Numbers:
    """1 minus the difference of an example's two ranks, as a part of the largest possible, (examples,)."""
    once = np.ones((1, len(x)))
    apart: Numbers = np.abs(ranks(x, once)[0] - ranks(y, once)[0])
    return 1 - apart / max(1, len(x) - 1)
