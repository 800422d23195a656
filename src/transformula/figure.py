"""Figures by matplotlib: one look, and SVG that stands alone and turns dark where the page prefers that.

Programs that know no style sheets show the light colors: each color is an attribute, which the style sheet overrides.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .plain import of_xml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, GROUND, MUTED, FAINT = "#1f2328", "#ffffff", "#6b737c", "#c4cad0"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#5d5fa8")
"""Colors of several curves, the first six of Okabe and Ito (told apart by the color-blind); `DASHES` go with them."""
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 3)), (0, (1, 1)))
DARK = {INK: "#e8eaed", GROUND: "#16191d", MUTED: "#9aa3ad", FAINT: "#4a525b", "#0072b2": "#4aa8e0",
        "#d55e00": "#ff8a4c", "#009e73": "#35c99a", "#8a6d3b": "#c8a468", "#5d5fa8": "#9a9cf0"}  # fmt: skip
"""Light color -> the one on a dark ground."""
AS_WRITTEN: Any = {"text.parse_math": False}  # names are users' own, dollars included: no formulas of TeX


@contextmanager
def new_figure(width: float, height: float) -> Iterator[tuple[Figure, Any]]:
    """A figure of so many inches, and its axes; what is drawn within the block has our colors."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    look: Any = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with matplotlib.rc_context({**look, **AS_WRITTEN, "figure.facecolor": GROUND, "axes.facecolor": GROUND}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        yield figure, axes


@contextmanager
def new_panels(
    widths: Sequence[float], height: float = 3.4, shared: bool = False
) -> Iterator[tuple[Any, list[Any]]]:
    """A figure of axes beside each other, of so many inches each; `shared`: of one vertical axis."""
    with new_figure(sum(widths), height) as (figure, axes):
        axes.remove()
        panels = list(figure.subplots(1, len(widths), sharey=shared, squeeze=False, width_ratios=widths)[0])
        for panel in panels:
            panel.spines[["top", "right"]].set_visible(False)
        yield figure, panels


def plain_log(axes: Any) -> None:
    """A logarithmic vertical axis whose ticks are plain numbers, few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def in_thousands(axis: Any) -> None:
    """Ticks as '500 k', '1.5 M' and '2 T'."""
    from matplotlib.ticker import EngFormatter

    axis.set_major_formatter(EngFormatter(sep=" "))


def whole_steps(axes: Any, label: str) -> None:
    """An axis of whole numbers: layers, depth, seeds."""
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(label)


def ticks_at(axes: Any, places: Sequence[float], names: Sequence[str], label: str, base: int = 10) -> None:
    """A logarithmic axis with ticks at some places alone."""
    axes.set_xscale("log", base=base)
    axes.set_xticks(places, names, minor=False)
    axes.minorticks_off()
    axes.set_xlabel(label)


def svg_of(figure: Figure) -> str:
    """The figure as SVG. Equal figures give equal texts."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "transformula", **AS_WRITTEN}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    figure.set_layout_engine("none")  # what was placed stays there: half of the time of a picture is its layout
    pairs = [(what, *colors) for colors in DARK.items() for what in ("fill", "stroke")]
    rules = "".join(f'[style*="{what}: {light}"]{{{what}:{dark} !important}}' for what, light, dark in pairs)
    head, tag, rest = of_xml(buffer.getvalue()).partition("<defs>")
    return f"{head}<style>@media (prefers-color-scheme: dark){{{rules}}}</style>\n{tag}{rest}"


def png_of(figure: Figure) -> bytes:
    """The figure as PNG, in light colors."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(AS_WRITTEN):
        figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
