"""The differences to the base: every pair of runs as a dot, the mean with its interval, the base's own noise."""

from __future__ import annotations

from functools import partial
from statistics import stdev
from typing import Any

from ....figure import FAINT, MUTED, new_figure
from ...numbers import between, fixed
from ...records import Results, Verdict
from ..document import Item, Paragraph, Picture, ReportSection, section
from ..drawing import SMALL, WIDTH, Look, looks_of, shortened_name
from ..numbers import digits_of

CAPTION = (
    "Each dot is a pair of runs with the same seed; the mark is their mean, the bar its 95 % interval. An arrow is a"
    " pair beyond the axis. The gray band is one standard deviation of the base's own runs: a single run cannot show a"
    " difference within it. Dotted: the effect that was stated."
)


@section(40)
def forest(results: Results) -> ReportSection | None:
    items: list[Item] = [forest_of(results, size) for size in results.sizes if results.verdicts_of(size)]
    steps = results.verdicts[-1].early if results.verdicts else 0
    early = f" in the first {steps:,} steps" if steps else ""
    return ReportSection(f"Differences to {results.base}{early}", [Paragraph(CAPTION), *items]) if items else None


def forest_of(results: Results, size: str) -> Picture:
    verdicts, digits = results.verdicts_of(size), digits_of(results)
    each = [f"{v.variant} {fixed(v.mean, digits, sign=True)} ({v.word})" for v in verdicts if not v.stopped]
    alt = f"Differences to {results.base} in {results.unit_of_differences}{results.at_size(size)}: {', '.join(each)}"
    return Picture(f"forest-{size}", alt, partial(draw_forest, results, size))


def draw_forest(results: Results, size: str) -> Any:
    verdicts, looks, digits = results.verdicts_of(size), looks_of(results), digits_of(results)
    low, high = axis_limits(verdicts)
    with new_figure(WIDTH, 1.15 + 0.48 * len(verdicts)) as (figure, axes):
        scores = list(results.scores_of(results.base, size).values())
        if len(scores) > 1:
            band = stdev(scores)
            low, high = min(low, -1.15 * band), max(high, 1.15 * band)
            axes.axvspan(-band, band, color=FAINT, alpha=0.35, linewidth=0)
        axes.axvline(0, color=MUTED, linewidth=1)
        for effect in {verdict.effect for verdict in verdicts if verdict.effect}:
            for side in (-effect, effect):
                axes.axvline(side, color=MUTED, linewidth=0.8, linestyle=":")
        for row, verdict in enumerate(reversed(verdicts)):
            draw_row(axes, row, verdict, looks[verdict.variant], (low, high))
        axes.set_ylim(-0.6, len(verdicts) - 0.4)
        axes.set_xlim(low, high)
        axes.set_yticks(range(len(verdicts)), [shortened_name(v.variant, 22) for v in reversed(verdicts)])
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=5)
        right = axes.secondary_yaxis("right")
        right.set_yticks(range(len(verdicts)), [beside_row(verdict, digits) for verdict in reversed(verdicts)])
        right.tick_params(length=0, labelsize=SMALL)
        for spine in (axes.spines["left"], right.spines["right"]):
            spine.set_visible(False)
        ways = ("better", "worse") if results.lower else ("worse", "better")
        axes.set_title(f"← {ways[0]}", fontsize=SMALL, loc="left")
        axes.set_title(f"{ways[1]} →", fontsize=SMALL, loc="right")
        axes.set_xlabel(f"{results.unit_of_differences}, variant minus base{results.at_size(size)}")
    return figure


def axis_limits(verdicts: list[Verdict]) -> tuple[float, float]:
    """From where to where the axis goes: over all that is sure, so that a run that went astray does not hide it."""
    steady = [verdict for verdict in verdicts if verdict.word != "unstable"] or verdicts
    ends = [0.0, *(end for v in steady for end in v.interval or ()), *(d for v in steady for _, d in v.differences)]
    margin = 0.06 * (max(ends) - min(ends)) or 1.0
    return min(ends) - margin, max(ends) + margin


def draw_row(axes: Any, row: int, verdict: Verdict, look: Look, span: tuple[float, float]) -> None:
    """The dots of one variant above its mean and interval; dots beyond the axis are arrows at its end."""
    low, high = span
    for n, (_, difference) in enumerate(verdict.differences):
        at = row + 0.16 + 0.05 * (n % 3)
        dot = {"color": look.color, "alpha": 0.75, "clip_on": False, "linestyle": "none"}
        if low <= difference <= high:
            axes.plot([difference], [at], marker="o", markersize=3.5, **dot)
        else:
            edge = low + 0.015 * (high - low) if difference < low else high - 0.015 * (high - low)
            axes.plot([edge], [at], marker="<" if difference < low else ">", **dot)
    if verdict.interval is not None and verdict.mean is not None:
        axes.plot(verdict.interval, [row, row], color=look.color, linewidth=2.4, solid_capstyle="butt")
        axes.plot([verdict.mean], [row], marker=look.marker, markersize=6.5, color=look.color)


def beside_row(verdict: Verdict, digits: int) -> str:
    """The numbers and the word of a row."""
    lost = f"\n{verdict.diverged[0]} of {verdict.diverged[1]} diverged" if verdict.diverged[0] else ""
    numbers = f"\n{between(verdict.interval, digits, sign=True)}" if verdict.interval else ""
    return "not run" if verdict.stopped else f"{verdict.word}{lost or numbers}"
