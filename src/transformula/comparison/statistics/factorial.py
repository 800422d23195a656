"""Effects of settings that were varied together: main effects and interactions of two, paired by seed.

For each seed the cells' scores y are fitted by least squares, y = X b, with columns for the levels of each factor and
for each pair of factors. An effect is a contrast c b: the mean over all other factors' levels of the difference between
a level and the first one; for two factors, how much that difference changes with the level of the other. In a full grid
this is the difference of the cells' means. Its values by seed are tested by the paired t-test, so that what a seed adds
to all cells cancels; Holm's correction counts all effects. In a fraction of a grid some contrasts are mixed with others
(aliased): they have no estimate (Box, Hunter and Hunter 2005, chapters 5 and 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from ..records import Outcome, Variant
from .paired import CERTAIN, Estimate, Part, holm, paired_test
from .pairs import runs_of
from .rates import RateFit

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Effect:
    """How much a level, or two together, change the score beside the first levels.

    levels    {"norm": "layer"}, or two of them: an interaction
    estimate  mean difference, interval and p over seeds; None where the fraction of the grid that was run cannot tell
              it from others
    p_holm    after Holm's correction over all effects
    """

    levels: Mapping[str, Any]
    estimate: Estimate | None
    p_holm: float | None


def effects(variants: Sequence[Variant], outcomes: Sequence[Outcome], size: str, fit: RateFit) -> list[Effect]:
    """Effects of the `levels` of variants, of the seeds at which all of them ended, with what their learning rates add.
    Several texts are a factor, too."""
    texts = len({variant.typed for variant in variants}) > 1
    cells = [{**({"variant": variant.typed} if texts else {}), **variant.levels} for variant in variants]
    if len(cells[0]) < 2:
        return []
    runs = [runs_of(outcomes, variant.name, size) for variant in variants]
    seeds = sorted(set.intersection(*({s for s, o in by_seed.items() if o.status == "done"} for by_seed in runs)))
    scores = np.array([[by_seed[seed].score for by_seed in runs] for seed in seeds], dtype=float)
    names = [variant.name for variant in variants]
    return effects_of(cells, scores, lambda weights: fit.error(dict(zip(names, weights, strict=True))))


def effects_of(
    cells: Sequence[Cell], scores: np.ndarray, common: Callable[[np.ndarray], Part] = lambda weights: CERTAIN
) -> list[Effect]:
    """Effects from the scores (seeds, cells); cells are the levels of each factor. Two seeds or more. `common`: what
    adds to the variance of a sum of cells, by the weights of these."""
    factors = {name: list(dict.fromkeys(cell[name] for cell in cells)) for name in cells[0]}
    columns = columns_of(factors)
    design = np.array([row_of(cell, columns) for cell in cells])
    grid = [dict(zip(factors, levels, strict=True)) for levels in product(*factors.values())]
    whole = np.array([row_of(cell, columns) for cell in grid])
    inverse = np.linalg.pinv(design)
    effects, estimates = columns[1:], []
    for effect in effects:
        contrast = np.array([weight(cell, effect, factors) for cell in grid]) @ whole
        on_cells = contrast @ inverse
        known = len(scores) > 1 and np.allclose(on_cells @ design, contrast, atol=1e-8)
        estimates.append(paired_test(scores @ on_cells, common=common(on_cells)) if known else None)
    corrected = iter(holm([e.p for e in estimates if e]))
    return [Effect(level, e, next(corrected) if e else None) for level, e in zip(effects, estimates, strict=True)]


def columns_of(factors: Mapping[str, Sequence[Any]]) -> list[Cell]:
    """The mean, each level but the first, and each pair of such levels of two factors."""
    single = [{name: level} for name, levels in factors.items() for level in levels[1:]]
    double = [{**a, **b} for a, b in combinations(single, 2) if a.keys() != b.keys()]
    return [{}, *single, *double]


def row_of(cell: Cell, columns: Sequence[Cell]) -> list[float]:
    """1 for each column whose levels the cell has."""
    return [float(all(cell[name] == level for name, level in column.items())) for column in columns]


def weight(cell: Cell, effect: Cell, factors: Mapping[str, Sequence[Any]]) -> float:
    """What a cell of the whole grid counts in the effect: + for the level, - for the first one, 0 for others."""
    signs = [{level: 1, factors[name][0]: -1}.get(cell[name], 0) for name, level in effect.items()]
    others = math.prod(len(levels) for name, levels in factors.items() if name not in effect)
    return math.prod(signs) / others
