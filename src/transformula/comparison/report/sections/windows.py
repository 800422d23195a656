"""The trained language models in windows of other lengths, and their loss by position and by frequency: each beside the
base's, by pairs of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from ....figure import MUTED
from ....tasks.scores.by_token import AXES, BINS, WAYS, Place, told_of, values_by
from ...records import Arm, Results
from ..document import Cell, Item, Paragraph, Picture, ReportSection, section
from ..drawing import draw_band, looks_of, over_seeds, panels
from ..numbers import digits_of, mean_cells, number_cell
from ..tables import arm_table

Values = Mapping[Place, float]
CAPTION = "The mean over seeds, and a band from the lowest to the highest seed."
EACH = "Each interval is of 95 % by itself: of twenty differences that are 0, about one lies outside of its own."


@section(45)
def other_contexts(results: Results) -> ReportSection | None:
    windows = [(o.variant, window) for o in results.outcomes if o.stage == "confirm" for window in o.windows]
    if len({window.context for _, window in windows}) < 2:
        return None
    texts = [Paragraph(text, brief=True) for text in [*told_of(windows), EACH]]
    return ReportSection("Windows of other lengths", [*texts, *along(results, "context")])


@section(95)
def loss_by_token(results: Results) -> ReportSection | None:
    items = [item for way in WAYS for item in along(results, way)]
    return ReportSection("Loss by position and by frequency", [Paragraph(f"{BINS} {EACH}"), *items]) if items else None


def along(results: Results, way: str) -> Iterator[Item]:
    """A table of every run's values along an axis and of their differences to the base, and a picture of each size."""
    rows = [row for arm in results.arms for row in rows_of(results, arm, way)]
    unit = results.score_in_words if way == "context" else "loss"
    columns = ["variant", "size", AXES[way], unit, "difference", "95 % interval", "change", "its 95 % interval"]
    yield from [arm_table(results, columns, rows, brief=way == "context")] if rows else []
    for size in results.sizes if rows else ():
        alt = f"{unit} by {way}{results.at_size(size)}, a line for each variant, as in the table"
        caption = CAPTION + (" Dotted: the length of training." if way == "context" else "")
        yield Picture(f"by-{way}-{size}", alt, partial(draw, results, size, way, unit), caption)


def values_of(results: Results, name: str, size: str, way: str) -> dict[int, Values]:
    """Seed -> values, of the runs that reached their end."""
    runs = [o for o in results.outcomes_of(name, size) if o.score is not None]
    return {o.seed: values for o in runs if (values := values_by(o.windows, way, results.score))}


def rows_of(results: Results, arm: Arm, way: str) -> Iterator[list[Cell]]:
    base, own = (values_of(results, name, arm.size, way) for name in (results.base, arm.variant))
    verdicts, home = [v for v in results.verdicts if v.arm_key == arm.arm_key], trained_with(results, *arm.arm_key)
    pairs = [(own[seed], base[seed]) for v in verdicts for seed, _ in v.differences if seed in own and seed in base]
    grown = [(run, {place: run[at] for place in run for at in run if at[0] in home}) for run in own.values()]
    for place in sorted({place for run in own.values() for place in run}):
        mean = fmean(run[place] for run in own.values() if place in run)
        changed = grown if way == "context" and place[0] not in home else []
        tests = [*tested(results, pairs, place), *tested(results, changed, place)]
        yield [*map(Cell, arm.arm_key), Cell(place[1], place[0]), number_cell(mean, digits_of(results)), *tests]


def tested(results: Results, pairs: Sequence[tuple[Values, Values]], place: Place) -> tuple[Cell, Cell]:
    """The mean of the differences at a place, and its interval."""
    apart = [one[place] - other[place] for one, other in pairs if place in one and place in other]
    return mean_cells(apart if len(apart) > 1 else [], digits_of(results))


def trained_with(results: Results, name: str, size: str) -> set[int]:
    """The length of the windows with which an arm was trained."""
    return {window.context for o in results.outcomes_of(name, size) for window in o.windows if window.trained}


def draw(results: Results, size: str, way: str, unit: str) -> Any:
    runs = {name: values_of(results, name, size, way).values() for name in results.names}
    places = sorted({place for values in runs.values() for run in values for place in run})
    names = list(dict.fromkeys(name for _, name, _ in places))
    with panels([unit]) as (figure, (axes,)):
        for name, look in looks_of(results).items():
            lines = [{names.index(place[1]): value for place, value in run.items()} for run in runs[name]]
            draw_band(axes, over_seeds(lines), look, name, marker=look.marker, markersize=3.5)
            for context in trained_with(results, name, size) if way == "context" else ():
                axes.axvline(names.index(f"{context:,}"), color=MUTED, linestyle=":", linewidth=1)
        aslant = {"rotation": 40, "ha": "right"} if len(" ".join(names)) > 30 else {}
        axes.set_xticks(range(len(names)), names, **aslant)
        axes.set_xlabel(AXES[way] + results.at_size(size))
    return figure
