"""The score against the learning rate: a rate that is tuned for one arm alone is the usual fault of comparisons."""

from __future__ import annotations

from functools import partial
from statistics import mean
from typing import Any

from ...records import Outcome, Results
from ..document import Item, Paragraph, Picture, ReportSection, section
from ..drawing import GRID, key_below, looks_of, panels
from ..numbers import rate_in_words
from ..selection import at_size, direction, names_of, outcomes_of, score_in_words, sizes_of

CAPTION = (
    "Small marks: single runs; the line: their mean; a ring: the rate that was chosen. Crosses at the edge: runs that"
    " diverged or failed at that rate."
)


@section(70)
def rates(results: Results) -> ReportSection | None:
    sizes = [size for size in sizes_of(results) if any(tuned(results, name, size) for name in names_of(results))]
    if not sizes:
        shared = results.settings.get("lr", "tune") != "tune"
        text = "All variants were trained at one learning rate; it was not tuned for each." if shared else ""
        return ReportSection("Learning rates", [Paragraph(text)]) if text else None
    items: list[Item] = [Paragraph(CAPTION)]
    items += [Picture(f"rates-{size}", alt(results, size), partial(draw, results, size)) for size in sizes]
    return ReportSection("Learning rates", items)


def tuned(results: Results, name: str, size: str) -> list[Outcome]:
    return outcomes_of(results, name, size, "tune")


def alt(results: Results, size: str) -> str:
    chosen = {name: results.rates.get((name, size)) for name in names_of(results)}
    said = ", ".join(f"{name} {rate_in_words(rate)}" for name, rate in chosen.items())
    return f"{score_in_words(results)} against the learning rate{at_size(results, size)}; chosen: {said}"


def draw(results: Results, size: str) -> Any:
    looks, worst = looks_of(results), 0.0 if results.lower else 1.0
    title = f"{score_in_words(results)} ({direction(results)}){at_size(results, size)}"
    with panels([title]) as (figure, (axes,)):
        axes.grid(axis="y", **GRID)
        axes.set_xscale("log", base=2)
        grid = sorted({o.lr for name in looks for o in tuned(results, name, size)})
        for n, (name, look) in enumerate(looks.items()):
            runs = tuned(results, name, size)
            scores = {lr: [o.score for o in runs if o.lr == lr and o.score is not None] for lr in grid}
            line = [(lr, mean(values)) for lr, values in scores.items() if values]
            if line:
                axes.plot(*zip(*line, strict=True), label=name, linewidth=1.5, **look.line)
            for lr, values in scores.items():
                axes.plot([lr] * len(values), values, look.marker, color=look.color, markersize=3.5, alpha=0.7)
            chosen = results.rates.get((name, size))
            ring = [value for lr, value in line if lr == chosen]
            axes.plot([chosen] * len(ring), ring, "o", markersize=10, markerfacecolor="none", color=look.color)
            lost = sorted({o.lr for o in runs if o.status != "done"})
            height = [abs(1 - worst - 0.04 * n)] * len(lost)
            axes.plot(lost, height, "x", color=look.color, markersize=6, transform=axes.get_xaxis_transform())
        axes.set_xticks(grid, [rate_in_words(lr) for lr in grid], minor=False)
        axes.minorticks_off()
        axes.set_xlabel("learning rate")
        key_below(figure, axes)
    return figure
