"""Effects of settings that were varied together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.comparison.statistics.simulated import outcome
from transformula.comparison.records import Variant
from transformula.comparison.statistics.factorial import effects, effects_of
from transformula.comparison.statistics.rates import RateFit

FACTORS = {"norm": ["rms", "layer"], "mlp": ["gelu", "swiglu", "relu"], "optimizer": ["adamw", "muon"]}
GRID = [dict(zip(FACTORS, levels, strict=True)) for levels in product(*FACTORS.values())]
SEEDS = 0.05 * np.random.default_rng(0).standard_normal((6, 1))


def score(cell: dict[str, str]) -> float:
    """Main effects of 0.03 and -0.02, and 0.04 more where layer meets muon."""
    layer, muon, swiglu = cell["norm"] == "layer", cell["optimizer"] == "muon", cell["mlp"] == "swiglu"
    return 1.5 + 0.01 * layer - 0.04 * muon - 0.02 * swiglu + 0.04 * (layer and muon)


def measured(cells: list[dict[str, str]], noise: float = 0.002) -> np.ndarray:
    own = noise * np.random.default_rng(1).standard_normal((6, len(cells)))
    return np.array([score(cell) for cell in cells]) + SEEDS + own


def by_name(found) -> dict[tuple[str, ...], object]:
    return {tuple(effect.levels.values()): effect for effect in found}


def test_effects_of_a_whole_grid_are_differences_of_means() -> None:
    scores = measured(GRID)
    found = by_name(effects_of(GRID, scores))
    expected = {("layer",): 0.03, ("muon",): -0.02, ("swiglu",): -0.02, ("relu",): 0.0, ("layer", "muon"): 0.04}
    for name, value in expected.items():
        assert found[name].estimate.mean == pytest.approx(value, abs=0.004)
        assert (found[name].p_holm < 0.05) == (value != 0)
    layer = np.array([cell["norm"] == "layer" for cell in GRID])
    by_hand = scores[:, layer].mean(axis=1) - scores[:, ~layer].mean(axis=1)
    assert found["layer",].estimate.mean == pytest.approx(by_hand.mean())
    assert found["layer",].estimate.sd == pytest.approx(by_hand.std(ddof=1))
    assert len(found) == 4 + 5


def test_noise_of_seeds_that_all_cells_share_does_not_count() -> None:
    found = by_name(effects_of(GRID, measured(GRID)))
    assert found["layer",].estimate.sd < 0.1 * SEEDS.std()


def test_half_of_a_grid_gives_main_effects_and_says_what_is_aliased() -> None:
    """Four factors in eight cells, the fourth the product of the others: pairs of two are mixed with each other."""
    cells = [dict(zip("abcd", (a, b, c, a ^ b ^ c), strict=True)) for a, b, c in product((0, 1), repeat=3)]
    scores = np.array([1.0 + 0.1 * cell["a"] - 0.2 * cell["d"] for cell in cells]) + SEEDS
    found = {tuple(effect.levels): effect for effect in effects_of(cells, scores)}
    assert found["a",].estimate.mean == pytest.approx(0.1) and found["d",].estimate.mean == pytest.approx(-0.2)
    assert all(found[pair].estimate is None for pair in (("a", "b"), ("c", "d"), ("a", "d")))


def test_seeds_at_which_a_cell_is_missing_are_left_out() -> None:
    variants = [Variant("-".join(cell.values()), "", "", levels=cell) for cell in GRID]
    scores = measured(GRID)
    runs = [
        outcome(variant.name, seed, float(scores[seed, place]))
        for place, variant in enumerate(variants)
        for seed in range(6)
    ]
    runs[0] = outcome(variants[0].name, 0, None)
    found = by_name(effects(variants, runs, "only", RateFit()))
    assert found["muon",].estimate.pairs == 5


def test_what_rates_add_widens_the_interval_of_an_effect() -> None:
    scores = measured(GRID)
    plain, wide = (by_name(found)["layer",].estimate for found in (
        effects_of(GRID, scores), effects_of(GRID, scores, lambda weights: (0.01**2 * float(weights @ weights), 5.0))
    ))  # fmt: skip
    assert wide.mean == plain.mean and wide.interval[0] < plain.interval[0] < plain.interval[1] < wide.interval[1]
