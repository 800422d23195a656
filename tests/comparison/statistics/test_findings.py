"""Sentences beside the verdicts."""

from __future__ import annotations

from tests.comparison.statistics.simulated import arm, outcomes_of
from tests.comparison.statistics.test_factorial import GRID, measured
from tests.comparison.statistics.test_scale import made
from transformula.comparison.records import Variant
from transformula.comparison.statistics.findings import further_findings


def test_effects_of_a_grid_are_said() -> None:
    names = ["-".join(cell.values()) for cell in GRID]
    variants = [Variant(name, "", "", levels=cell) for name, cell in zip(names, GRID, strict=True)]
    runs = outcomes_of(dict(zip(names, measured(GRID).T.tolist(), strict=True)))
    found = further_findings(variants, [arm(name) for name in names], runs, names[0], "bits per byte", lower=True)
    assert len(found) == 9
    [layer] = [text for text in found if text.startswith("norm=layer, over all")]
    assert "+0.03" in layer and "after Holm's correction" in layer
    [both] = [text for text in found if text.startswith("norm=layer with optimizer=muon, beyond")]
    assert "+0.04" in both


def test_the_law_over_three_sizes_is_said() -> None:
    runs, arms = made(["small", "large", "huge"], floor=1.0, noise=1e-4)
    variants = [Variant(name, name, "") for name in ("base", "fast", "slow")]
    found = further_findings(variants, arms, runs, "base", "bits per byte", lower=True)
    assert found[0].startswith("over all sizes the loss is 1") and "needs 1.5" in found[1] and "needs 0.8" in found[2]
    assert further_findings(variants, *reversed(made(["small", "large"])), "base", "", lower=True) == []
