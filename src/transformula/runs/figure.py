"""Figures by matplotlib: one look, and SVG that stands alone and turns dark where the page prefers that.

Programs that know no style sheets show the light colors: each color is an attribute, which the style sheet overrides.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_io import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .log import Point

INK, GROUND, MUTED, FAINT = "#1f2328", "#ffffff", "#6b737c", "#c4cad0"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#5d5fa8")
"""Colors of several curves, the first six of Okabe and Ito (told apart by the color-blind); `DASHES` go with them."""
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 3)), (0, (1, 1)))
DARK = {INK: "#e8eaed", GROUND: "#16191d", MUTED: "#9aa3ad", FAINT: "#4a525b", "#0072b2": "#4aa8e0",
        "#d55e00": "#ff8a4c", "#009e73": "#35c99a", "#8a6d3b": "#c8a468", "#5d5fa8": "#9a9cf0"}  # fmt: skip
"""Light color -> the one on a dark ground."""


@contextmanager
def new_figure(width: float, height: float) -> Iterator[tuple[Figure, Any]]:
    """A figure of so many inches, and its axes; what is drawn within the block has our colors."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    look: Any = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with matplotlib.rc_context({**look, "figure.facecolor": GROUND, "axes.facecolor": GROUND}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        yield figure, axes


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


def svg_of(figure: Figure) -> str:
    """The figure as SVG. Equal figures give equal texts."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "transformula"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    pairs = [(what, *colors) for colors in DARK.items() for what in ("fill", "stroke")]
    rules = "".join(f'[style*="{what}: {light}"]{{{what}:{dark} !important}}' for what, light, dark in pairs)
    head, tag, rest = buffer.getvalue().partition("<defs>")
    return f"{head}<style>@media (prefers-color-scheme: dark){{{rules}}}</style>\n{tag}{rest}"


def png_of(figure: Figure) -> bytes:
    """The figure as PNG, in light colors."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


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
    folder: Path,
    training: Sequence[Point],
    validation: Sequence[Point],
    sampled: Sequence[Point],
    baselines: Mapping[str, float],
    title: str = "",
) -> None:
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
