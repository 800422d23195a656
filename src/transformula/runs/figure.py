"""Curves of a run: its losses over the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_io import write_whole
from ..figure import FAINT, INK, MUTED, new_figure, png_of, svg_of

if TYPE_CHECKING:
    from .log import Point


def draw_validation(
    axes: Any, whole: Sequence[Point], sampled: Sequence[Point], color: str, dash: Any, name: str
) -> None:
    """Scores on the validation set: a line with dots. Where only a sample was seen on the way, the line is that of the
    sample, and scores on the whole set stand beside it as open squares, since the two differ."""
    line, apart = (sampled, whole) if sampled else (whole, [])
    look = {"color": color, "markersize": 3.5}
    if line:
        axes.plot(*zip(*line, strict=True), linestyle=dash, linewidth=1.6, marker="o", label=name, **look)
    if apart:
        look["markersize"] = 6
        axes.plot(*zip(*apart, strict=True), linestyle="none", marker="s", markerfacecolor="none", **look)


def smoothed(values: Sequence[float], weight: float = 0.98) -> list[float]:
    """Exponential mean, corrected for its start; `weight` is that of the past, at most: short runs are smoothed less.
    Values that are not numbers are passed over."""
    weight = min(weight, max(0.0, 1 - 60 / (len(values) + 1)))
    result, total, norm = [], 0.0, 0.0
    for value in values:
        if value == value:
            total = weight * total + (1 - weight) * value
            norm = weight * norm + (1 - weight)
        result.append(total / norm if norm else float("nan"))
    return result


def draw_curve(
    folder: Path, training: Sequence[Point], validation: Sequence[Point], sampled: Sequence[Point],
    baselines: Mapping[str, float], title: str = "",
) -> None:  # fmt: skip
    """Write the loss curve of a run, loss.svg and loss.png, from (step, loss) pairs: training loss (gray, smoothed
    above its raw values), validation loss (black, with dots), and the trivial baselines, in the unit of the loss, as
    dashed lines. Told apart by shape, so that it can be printed in gray.

    validation  losses of the whole validation set
    sampled     those of a sample of it, where that is what was seen on the way
    """
    with new_figure(6.4, 4.0) as (figure, axes):
        if training:
            steps, losses = zip(*training, strict=True)
            axes.plot(steps, losses, color=FAINT, linewidth=0.8)
            axes.plot(steps, smoothed(losses), color=MUTED, linewidth=1.6, label="training")
        name = "validation (a sample; square: all)" if sampled and validation else "validation"
        draw_validation(axes, validation, sampled, INK, "-", name)
        seen = [v for _, v in (*validation, *sampled)] + list(baselines.values())
        seen += smoothed([v for _, v in training])[len(training) // 20 :]
        if seen:
            low, high = min(seen), max(seen)
            margin = 0.06 * (high - low) or 0.1
            axes.set_ylim(low - margin, high + margin)
            apart, above = 0.05 * (high - low + 2 * margin), float("inf")
            for i, (name, value) in enumerate(sorted(baselines.items(), key=lambda item: -item[1])):
                axes.axhline(value, color=INK, linewidth=0.9, linestyle=["--", ":", "-."][i % 3])
                # names stand in the margin, pushed apart where their lines lie close together
                above = min(value, above - apart)
                where: Any = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "center"}
                axes.annotate(name, (1.01, above), fontsize=8, **where)
        axes.set_xlabel("step")
        axes.set_ylabel("loss (nats)")
        if title:
            axes.set_title(title, fontsize=9, loc="left")
        if training or validation or sampled:  # losses fall: this corner is free
            axes.legend(frameon=False, loc="upper right", fontsize=9)
    write_whole(folder / "loss.svg", svg_of(figure).encode())
    write_whole(folder / "loss.png", png_of(figure))


def evenly_chosen(points: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the points, evenly, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(n * (len(points) - 1) / (most - 1))] for n in range(most)]
