"""The score against compute, over the sizes."""

from __future__ import annotations

from functools import partial
from statistics import mean
from typing import Any

from ...numbers import fixed
from ...records import Results
from ..document import Picture, ReportSection, section
from ..drawing import looks_of, panels, ticks_at
from ..numbers import amount, digits_of

CAPTION = "The mean over seeds at each size; the bar goes from the lowest to the highest seed."


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
    return ReportSection("Score against compute", [Picture("compute", alt, partial(draw, results), CAPTION)])


def points(results: Results, name: str) -> list[tuple[float, float, float, float]]:
    """(FLOPs of a run, mean score, lowest, highest) at each size that has scores."""
    rows = []
    for size in results.sizes:
        arm, scores = results.arms_by_key.get((name, size)), list(results.scores_of(name, size).values())
        if arm and scores:
            rows.append((arm.costs.flops, mean(scores), min(scores), max(scores)))
    return rows


def draw(results: Results) -> Any:
    looks = looks_of(results)
    with panels([f"{results.score_in_words} ({results.direction})"]) as (figure, (axes,)):
        for n, (name, look) in enumerate(looks.items()):
            rows = points(results, name)
            if not rows:
                continue
            flops, scores, lows, highs = zip(*rows, strict=True)
            apart = [x * 1.012 ** (n - (len(looks) - 1) / 2) for x in flops]  # beside each other, to be seen
            bars = [
                [score - low for score, low in zip(scores, lows, strict=True)],
                [high - score for score, high in zip(scores, highs, strict=True)],
            ]
            bar = {"elinewidth": 1, "capsize": 2.5, "linewidth": 1.5, "markersize": 5}
            axes.errorbar(apart, scores, bars, marker=look.marker, label=name, **look.line, **bar)
        ticks = [row[0] for row in max((points(results, name) for name in looks), key=len)]
        ticks_at(axes, ticks, [amount(flops) for flops in ticks], "FLOPs a run")
    return figure
