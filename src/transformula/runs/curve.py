"""The loss curve of a run as a picture: training loss (gray, smoothed above its raw values), validation loss (black,
with dots), and the trivial baselines as dashed lines. Told apart by shape, so that it can be printed in gray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..atomic_io import write_whole
from .figure import FAINT, INK, MUTED, draw_validation, new_figure, png_of, svg_of
from .log import Point

SMOOTH = 0.98
"""Weight of the past in the smoothed training loss, at most: short runs are smoothed less."""


def smoothed(values: Sequence[float], weight: float = SMOOTH) -> list[float]:
    """Exponential mean, corrected for its start. Values that are not numbers are passed over."""
    weight = min(weight, max(0.0, 1 - 60 / (len(values) + 1)))
    result, total, norm = [], 0.0, 0.0
    for value in values:
        if value == value:
            total = weight * total + (1 - weight) * value
            norm = weight * norm + (1 - weight)
        result.append(total / norm if norm else float("nan"))
    return result


def draw_curve(
    folder: Path,
    training: Sequence[Point],
    validation: Sequence[Point],
    sampled: Sequence[Point],
    baselines: Mapping[str, float],
    title: str = "",
    unit: str = "nats",
) -> list[Path]:
    """Write loss.svg and loss.png from (step, loss) pairs; returns the files. `baselines` in the unit of the loss.

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
                axes.annotate(
                    name, (1.01, above), xycoords=("axes fraction", "data"), ha="left", va="center", fontsize=8
                )
        axes.set_xlabel("step")
        axes.set_ylabel(f"loss ({unit})")
        if title:
            axes.set_title(title, fontsize=9, loc="left")
        if training or validation or sampled:  # losses fall: this corner is free
            axes.legend(frameon=False, loc="upper right", fontsize=9)
    written = []
    for kind, content in (("svg", svg_of(figure).encode()), ("png", png_of(figure))):
        write_whole(folder / f"loss.{kind}", content)
        written.append(folder / f"loss.{kind}")
    return written
