"""The scores on the way, against tokens, FLOPs and seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ....figure import MUTED, in_thousands
from ....runs.figure import evenly_chosen, smoothed
from ...records import Outcome, Results
from ..document import Item, Paragraph, Picture, ReportSection, section
from ..drawing import Look, Range, draw_band, looks_of, over_seeds, panels

Line = list[tuple[float, float]]  # (place on the axis, value)
Point = tuple[int, int, float, float]  # (step, tokens, seconds, value)
AXES: dict[str, Callable[[Point, float], float]] = {
    "tokens": lambda point, flops: point[1],
    "FLOPs": lambda point, flops: point[1] * flops,
    "seconds": lambda point, flops: point[2],
}
MAX_POINTS = 60  # of a line
EARLY = 0.2  # of the way: the scores before it would flatten the rest


@section(60)
def curves(results: Results) -> ReportSection | None:
    sizes = [size for size in results.sizes if any(runs_of(results, name, size) for name in results.names)]
    if not sizes:
        return None
    items: list[Item] = [Paragraph(" ".join(legend(results)))]
    for size in sizes:
        for axis in AXES:
            alt = f"{results.score_in_words} against {axis}{results.at_size(size)}, a line for each variant"
            items.append(
                Picture(f"curves-{axis.lower()}-{size}", alt, partial(draw, results, axis, size), wide=axis == "tokens")
            )
    return ReportSection("On the way", items)


def legend(results: Results) -> list[str]:
    """What the lines are."""
    text = "Scores on the validation set: the mean over seeds, and a band from the lowest to the highest seed."
    rows = [text, f"Minus base: the same, each run minus that of {results.base} with its seed."]
    rows += ["The loss in training is smoothed."] if any(o.curve for o in results.outcomes) else []
    lost = any(o.status != "done" for o in results.outcomes if o.stage == "confirm")
    return rows + (["A thin line that ends in a cross is a run that did not reach its end."] if lost else [])


def runs_of(results: Results, name: str, size: str) -> list[Outcome]:
    return [o for o in results.outcomes_of(name, size) if o.evaluated or o.curve]


def line_of(points: Sequence[Point], axis: str, flops: float) -> Line:
    return [(AXES[axis](point, flops), point[3]) for point in points if point[3] == point[3]]


def draw(results: Results, axis: str, size: str) -> Any:
    """The validation score; against tokens also the difference to the base, and the loss in training, whose unit is
    another one."""
    looks = looks_of(results)
    runs = {name: runs_of(results, name, size) for name in looks}
    titles = [results.score_in_words]
    if axis == "tokens":
        titles += ["minus base", *(["loss in training"] if any(o.curve for rs in runs.values() for o in rs) else [])]
    with panels(titles, shared=False) as (figure, row):
        for axes in row:
            axes.set_xlabel(axis + results.at_size(size))
            in_thousands(axes.xaxis)
        for name, look in looks.items():
            arm = results.arms_by_key.get((name, size))
            flops = arm.costs.flops_per_token if arm else 0.0
            draw_arm(row[0], [(o, line_of(o.evaluated, axis, flops)) for o in runs[name]], look, name)
            if "minus base" in titles:
                draw_band(row[1], mean_line(minus_base(runs[name], runs[results.base])), look, name)
            if "loss in training" in titles:
                draw_arm(row[2], [(o, smooth(line_of(o.curve, axis, flops))) for o in runs[name]], look, name, False)
        for axes in row:
            zoom(axes)
    return figure


def draw_arm(axes: Any, lines: list[tuple[Outcome, Line]], look: Look, name: str, dots: bool = True) -> None:
    """The mean and the band of the runs that reached their end, with dots or thin; and each run that did not."""
    line = {"marker": look.marker, "markersize": 3} if dots else {"linewidth": 0.9}
    done = mean_line([points for outcome, points in lines if outcome.status == "done"])
    draw_band(axes, dict(evenly_chosen(list(done.items()), MAX_POINTS)), look, name, **line)
    for outcome, points in lines:
        if outcome.status != "done" and points:
            few = zip(*evenly_chosen(points, MAX_POINTS // 2), strict=True)
            axes.plot(*few, **look.line, linewidth=0.6, alpha=0.8, label=f"_{name}")
            axes.plot(*points[-1], marker="x", markersize=7, markeredgewidth=1.8, color=look.color, label="_end")


def minus_base(runs: list[Outcome], base: list[Outcome]) -> list[Line]:
    """Tokens and difference, of each run that has a partner of its seed."""
    partners = {o.seed: o for o in base if o.status == "done"}
    lines: list[Line] = []
    for o in runs:
        if o.status == "done" and o.seed in partners:
            by_tokens = {point[1]: point[3] for point in partners[o.seed].evaluated}
            lines.append(
                [(tokens, value - by_tokens[tokens]) for _, tokens, _, value in o.evaluated if tokens in by_tokens]
            )
    return lines


def mean_line(lines: list[Line]) -> dict[float, Range]:
    """The lines of several seeds, point by point, at the mean of their places: seconds differ by run."""
    count = min((len(line) for line in lines), default=0)
    places = over_seeds([{n: line[n][0] for n in range(count)} for line in lines])
    values = over_seeds([{n: line[n][1] for n in range(count)} for line in lines])
    return {places[n][0]: values[n] for n in range(count)}


def smooth(line: Line) -> Line:
    return list(zip((place for place, _ in line), smoothed([value for _, value in line]), strict=True))


def zoom(axes: Any) -> None:
    """Leave out how the scores began; what went astray leaves the picture at its upper or lower edge."""
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    if not lines:
        return
    end = max(max(line.get_xdata()) for line in lines)
    late = [y for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True) if x >= EARLY * end]
    low, high = min(late), max(late)
    margin = 0.08 * (high - low) or 1.0
    axes.set_ylim(low - margin, high + margin)
    for line in axes.lines:
        if line.get_label() == "_end":
            place = min(max(line.get_ydata()[0], low - margin), high + margin)
            line.set(ydata=[place], clip_on=False)
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=0) if low < 0 < high else None
