"""What the pictures of a report share: how each variant looks, panels beside each other, bands over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ...errors import shortened
from ...figure import DASHES, FAINT, INK, SERIES, new_panels
from ..records import Results

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
WIDTH, HEIGHT = 5.0, 3.0  # inches of a picture
SMALL = 8.5  # points of its smaller letters
Range = tuple[float, float, float]  # over seeds: (mean, lowest, highest)


@dataclass(frozen=True)
class Look:
    """How a variant is drawn in every picture: told apart by color, by dashes and by marks."""

    color: str
    dash: Any
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.color, "linestyle": self.dash}


def looks_of(results: Results) -> dict[str, Look]:
    """The base in the color of the ink; the others in the colors of a series."""
    base, *others = results.names
    looks = {base: Look(INK, "-", MARKERS[0])}
    for n, name in enumerate(others):
        turn = n + n // len(SERIES)  # beyond eight, a color comes again with other dashes
        looks[name] = Look(
            SERIES[n % len(SERIES)], DASHES[(turn + 1) % len(DASHES)], MARKERS[(turn + 1) % len(MARKERS)]
        )
    return looks


@contextmanager
def panels(titles: Sequence[str], height: float = HEIGHT, shared: bool = True) -> Iterator[tuple[Any, list[Any]]]:
    """A figure with a panel for each title, side by side, above the names of the first one's lines; `shared`: of one
    vertical axis."""
    with new_panels([max(WIDTH / len(titles), 2.6)] * len(titles), height, shared) as (figure, row):
        for axes, title in zip(row, titles, strict=True):
            axes.set_title(title, fontsize=SMALL, loc="left")
            axes.grid(axis="y", color=FAINT, linewidth=0.6, alpha=0.7)
        yield figure, row
        key_below(figure, row[0])


def shortened_name(name: str, most: int = 28) -> str:
    """A variant's name where there is little room."""
    return shortened(" ".join(name.split()), most)


def key_below(figure: Any, axes: Any) -> None:
    """The names of the lines below the panels, where they hide nothing."""
    handles, labels = axes.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    if known:
        names = [shortened_name(label) for label in known]
        columns = min(len(names), max(1, int(figure.get_figwidth() * 15 / (max(map(len, names)) + 6))))
        figure.legend(known.values(), names, loc="outside lower center", ncols=columns, frameon=False, fontsize=SMALL)


def over_seeds(runs: Iterable[Mapping[Any, float]]) -> dict[Any, Range]:
    """Place -> (mean, lowest, highest), at the places that every run has."""
    runs = [run for run in runs if run]
    shared = [place for place in runs[0] if all(place in run for run in runs)] if runs else []
    values = {place: [run[place] for run in runs] for place in shared}
    return {place: (fmean(v), min(v), max(v)) for place, v in values.items()}


def draw_band(axes: Any, points: Mapping[Any, Range], look: Look, name: str, **line: Any) -> None:
    """The mean over seeds as a line, and from the lowest to the highest as a band."""
    if not points:
        return
    places = list(points)
    means, lows, highs = zip(*points.values(), strict=True)
    few = max(1, round(len(places) / 12))  # not every point has a mark
    axes.plot(places, means, label=name, markevery=few, **look.line, **{"linewidth": 1.5, **line})
    if any(high > low for low, high in zip(lows, highs, strict=True)):
        axes.fill_between(places, lows, highs, color=look.color, alpha=0.15, linewidth=0)
