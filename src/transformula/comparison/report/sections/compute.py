"""The score against compute, over the sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from ....figure import ticks_at
from ...numbers import between, fixed
from ...records import Results
from ...statistics.fit import ScalingFit, fit_scaling
from ..document import Cell, Item, Paragraph, Picture, ReportSection, ReportTable, section
from ..drawing import draw_band, looks_of, panels
from ..numbers import amount, digits_of, number_cell

CAPTION = "The mean over seeds at each size; the band goes from the lowest to the highest seed."
DOTTED = "Dotted: the law that was fitted to all variants."
BETWEEN = "It holds between the sizes that were run, and says nothing of others."


@section(80)
def compute(results: Results) -> ReportSection | None:
    if len(results.sizes) < 2 or not any(points(results, name) for name in looks_of(results)):
        return None
    digits = digits_of(results)
    scores = []
    for name in looks_of(results):
        pairs = [f"{fixed(score, digits)} at {amount(flops)}" for flops, score, _, _ in points(results, name)]
        scores.append(f"{name} {', '.join(pairs)}")
    alt = f"{results.score_in_words} against FLOPs a run: {'; '.join(scores)}"
    fit = fit_scaling(results.outcomes, results.arms, results.base) if results.lower else None
    drawn = Picture("compute", alt, partial(draw, results, fit), f"{CAPTION} {DOTTED}" if fit else CAPTION)
    return ReportSection("Score against compute", [*(law(fit) if fit else ()), drawn])


def law(fit: ScalingFit) -> Iterator[Item]:
    """The law over the sizes, and how much compute each variant saves by it."""
    exponent, *ends = fit.exponent
    text = f"Over the sizes the loss is {fit.floor:.3g} + A FLOPs^-{exponent:.2g}, with an A for each variant; 95 %"
    yield Paragraph(f"{text} interval of the exponent: {ends[0]:.2g} to {ends[1]:.2g}. {BETWEEN}", brief=True)
    gains = ((Cell(name), number_cell(gain, 2), Cell(between(ends, 2))) for name, (gain, *ends) in fit.speedups.items())
    yield ReportTable(("variant", "FLOPs of the base for the same loss, times", "95 % interval"), [*gains], brief=True)


def points(results: Results, name: str) -> list[tuple[float, float, float, float]]:
    """(FLOPs of a run, mean score, lowest, highest) at each size that has scores."""
    rows = []
    for size in results.sizes:
        arm, scores = results.arms_by_key.get((name, size)), list(results.scores_of(name, size).values())
        if arm and scores:
            rows.append((arm.costs.flops, mean(scores), min(scores), max(scores)))
    return rows


def draw(results: Results, fit: ScalingFit | None) -> Any:
    with panels([f"{results.score_in_words} ({results.direction})"]) as (figure, (axes,)):
        for name, look in looks_of(results).items():
            draw_band(axes, {row[0]: row[1:] for row in points(results, name)}, look, name, marker=look.marker)
            if fit is not None and name in fit.amplitudes:
                places = np.geomspace(*fit.flops)[1:-1]
                axes.plot(places, [fit.loss(name, x) for x in places], color=look.color, linestyle=":", linewidth=1)
        ticks = [row[0] for row in max((points(results, name) for name in results.names), key=len)]
        ticks_at(axes, ticks, [amount(flops) for flops in ticks], "FLOPs a run")
    return figure
