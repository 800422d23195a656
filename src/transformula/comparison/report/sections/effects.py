"""What each setting of a grid changes, and what two of them change together beyond that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ....figure import INK, MUTED, new_figure
from ...numbers import fixed, probability
from ...records import Results
from ...statistics.factorial import Effect, effects
from ..document import Cell, Item, Paragraph, Picture, ReportSection, ReportTable, section
from ..drawing import WIDTH, shortened_name
from ..numbers import digits_of, interval_cell, number_cell
from .rates import fit_of

CAPTION = (
    "The effect of a setting: its score minus that of the first value of its key, the mean over all other settings. Of"
    " two together (diamonds): how much the effect of one changes with the other. Paired by seed; p after Holm's"
    " correction for the number of effects. A dash: the runs that were made cannot tell it from other effects."
)


@section(45)
def effects_of_settings(results: Results) -> ReportSection | None:
    items: list[Item] = []
    grid = [variant for variant in results.variants if variant.levels]
    for size in results.sizes if len(grid) > 1 else []:
        found = effects(grid, results.outcomes, size, fit_of(results, size))
        if any(effect.estimate for effect in found):
            items += [table(results, found, size), picture(results, found, size)]
    return ReportSection("Effects of the settings", [Paragraph(CAPTION), *items]) if items else None


def name_of(effect: Effect) -> str:
    """'norm=layer', 'norm=layer with optimizer=muon'."""
    return " with ".join(f"{key}={level}" for key, level in effect.levels.items())


def table(results: Results, found: Sequence[Effect], size: str) -> ReportTable:
    digits, rows = digits_of(results), list[list[Cell]]()
    for effect in found:
        mean, interval = (effect.estimate.mean, effect.estimate.interval) if effect.estimate else (None, None)
        numbers = (number_cell(mean, digits, sign=True), interval_cell(interval, digits))
        rows.append([Cell(name_of(effect)), *numbers, Cell(probability(effect.p_holm), effect.p_holm)])
    columns = (f"setting{results.at_size(size)}", results.unit_of_differences, "95 % interval", "p (Holm)")
    return ReportTable(columns, rows, brief=True)


def picture(results: Results, found: Sequence[Effect], size: str) -> Picture:
    digits = digits_of(results)
    known = {name_of(effect): effect for effect in found if effect.estimate and effect.estimate.interval}
    each = [f"{name} {fixed(e.estimate.mean if e.estimate else None, digits, sign=True)}" for name, e in known.items()]
    alt = f"Effects of the settings in {results.unit_of_differences}{results.at_size(size)}: {', '.join(each)}"
    return Picture(f"effects-{size}", alt, partial(draw, results, list(known.values()), size))


def draw(results: Results, found: Sequence[Effect], size: str) -> Any:
    with new_figure(WIDTH, 0.9 + 0.28 * len(found)) as (figure, axes):
        axes.axvline(0, color=MUTED, linewidth=1)
        for row, effect in enumerate(reversed(found)):
            assert effect.estimate is not None and effect.estimate.interval is not None
            axes.plot(effect.estimate.interval, [row, row], color=INK, linewidth=2, solid_capstyle="butt")
            axes.plot([effect.estimate.mean], [row], "o" if len(effect.levels) == 1 else "D", color=INK, markersize=5)
        axes.set_yticks(range(len(found)), [shortened_name(name_of(effect), 36) for effect in reversed(found)])
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"{results.unit_of_differences} ({results.direction}){results.at_size(size)}")
    return figure
