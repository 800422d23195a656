"""Learned coefficients of the formulas over depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from ....figure import DASHES, MUTED, SERIES, whole_steps
from ...records import Results
from ..document import Cell, Item, Paragraph, Picture, ReportSection, ReportTable, section
from ..drawing import MARKERS, Look, draw_band, over_seeds, panels

CAPTION = "What the formulas' own coefficients became: the mean over seeds, and a band from the lowest to the highest."
MAX_COEFFICIENTS = 8  # in a picture
Learned = dict[str, list[Sequence[float]]]  # coefficient -> its values by layer, of each seed


@section(110)
def learned_coefficients(results: Results) -> ReportSection | None:
    items: list[Item] = []
    single: list[list[Cell]] = []
    for number, name in enumerate(results.names, 1):
        for size in results.sizes:
            lists, numbers = learned_values(results, name, size)
            single += [
                [Cell(f"{name}{results.at_size(size)}"), Cell(k), Cell(f"{v:.4g}", v)] for k, v in numbers.items()
            ]
            if lists:
                items += [picture(results, name, size, lists, number)]
    if single:
        items.append(ReportTable(("variant", "coefficient", "mean over seeds"), single))
    return ReportSection("Learned coefficients", [Paragraph(CAPTION), *items]) if items else None


def learned_values(results: Results, name: str, size: str) -> tuple[Learned, Mapping[str, float]]:
    """Coefficients that each layer has its own of, and the means of those that all layers share."""
    lists: Learned = {}
    numbers: dict[str, list[float]] = {}
    for outcome in results.outcomes_of(name, size):
        for key, value in outcome.learned.items() if outcome.status == "done" else ():
            if isinstance(value, (list, tuple)):
                lists.setdefault(key, []).append(value)
            elif isinstance(value, (int, float)):
                numbers.setdefault(key, []).append(value)
    return lists, {key: fmean(values) for key, values in numbers.items()}


def picture(results: Results, name: str, size: str, lists: Learned, number: int) -> Picture:
    few, left = dict([*lists.items()][:MAX_COEFFICIENTS]), len(lists) - MAX_COEFFICIENTS
    alt = f"Coefficients of {name} by layer{results.at_size(size)}: {', '.join(few)}"
    more = f"{left} more are in results.json." if left > 0 else ""
    return Picture(f"learned-{number}-{size}", alt, partial(draw, few, f"{name}{results.at_size(size)}"), more)


def draw(lists: Learned, title: str) -> Any:
    with panels([title]) as (figure, (axes,)):
        axes.axhline(0, color=MUTED, linewidth=0.8)
        for n, (key, runs) in enumerate(lists.items()):
            points = over_seeds([dict(enumerate(run, 1)) for run in runs])
            draw_band(axes, points, Look(SERIES[n], DASHES[n], MARKERS[n]), key, marker=MARKERS[n], markersize=3.5)
        whole_steps(axes, "layer")
    return figure
