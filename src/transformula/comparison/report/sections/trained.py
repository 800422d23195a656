"""A look into the trained models: what silencing each sublayer costs, and how alike tokens become with depth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ....figure import MUTED, plain_log, whole_steps
from ....inspection.by_layer import THIRD, ByLayer, mean_over, thirds
from ....runs.log import is_number
from ...numbers import NOTHING
from ...records import Results
from ..document import Cell, Item, Paragraph, Picture, ReportSection, ReportTable, section
from ..drawing import Range, draw_band, looks_of, over_seeds, panels, shortened_name
from ..numbers import mean_cells

QUANTITIES = {
    "similarity": "cosine between tokens",
    "rank": "effective rank",
    "updates": "change of the stream by each layer",
}
"""Fields of what `inspect_trained` returns, by stream, and their words."""
PANELS = 4  # sublayers in a picture
DIGITS = 3  # of a loss, nats
CAPTION = (
    "Of the models at the end of training, the mean over seeds, and a band from the lowest to the highest. Silencing a"
    " sublayer: it yields 0 in one layer, and the loss on the validation set changes by so many nats. Cosine between"
    " tokens: 1 where all tokens have become alike. Effective rank: exp of the entropy of the stream's singular values."
    " Change of the stream: RMS of what a layer changes, over that of the stream. Depth 0 is what enters the first"
    " layer; of several streams the first is drawn."
)


@section(105)
def trained_models(results: Results) -> ReportSection | None:
    items: list[Item] = []
    for size in results.sizes:
        roles = list(dict.fromkeys(role for name in results.names for role in runs_of(results, name, size)))
        if roles:
            late = late_layers(results, size, roles)
            items += [late] if late else []
            alt = f"What silencing each sublayer costs by layer{results.at_size(size)}: {', '.join(roles)}"
            items.append(Picture(f"silenced-{size}", alt, partial(draw_silenced, results, size), wide=True))
        if any(quantity_of(results, name, size, "similarity") for name in results.names):
            alt = f"Cosine between tokens, effective rank and change by each layer{results.at_size(size)}, by depth"
            items.append(Picture(f"alike-{size}", alt, partial(draw_alike, results, size), wide=True))
    return ReportSection("Inside the trained models", [Paragraph(CAPTION), *items]) if items else None


def runs_of(results: Results, name: str, size: str) -> dict[str, dict[int, ByLayer]]:
    """Sublayer -> seed -> layer -> the cost of silencing it."""
    roles: dict[str, dict[int, ByLayer]] = {}
    for outcome in results.outcomes_of(name, size):
        for role, changes in ((outcome.inspected or {}).get("silenced") or {}).items():
            roles.setdefault(role, {})[outcome.seed] = {n: c for n, c in enumerate(changes, 1) if is_number(c)}
    return roles


def quantity_of(results: Results, name: str, size: str, quantity: str) -> dict[int, Range]:
    """Depth -> range over seeds, of the first stream."""
    runs = []
    for outcome in results.outcomes_of(name, size):
        streams = list(((outcome.inspected or {}).get(quantity) or {}).values())
        first = 1 if quantity == "updates" else 0
        runs += [{n: value for n, value in enumerate(row, first) if is_number(value)} for row in streams[:1]]
    return over_seeds(runs)


def late_layers(results: Results, size: str, roles: Sequence[str]) -> ReportTable | None:
    """The mean cost in the first third of the layers and in the last, and that in the last beside the base's."""
    rows: list[list[Cell]] = []
    for role in roles:
        base = runs_of(results, results.base, size).get(role, {})
        for name in results.names:
            runs = runs_of(results, name, size).get(role, {})
            deepest = max((layer for run in runs.values() for layer in run), default=0)
            if deepest < THIRD:
                continue
            early, late = ({seed: mean_over(run, layers) for seed, run in runs.items()} for layers in thirds(deepest))
            theirs = {seed: mean_over(run, thirds(max(run, default=0))[1]) for seed, run in base.items()}
            pairs = [(late[seed], theirs[seed]) for seed in sorted(late.keys() & theirs.keys())]
            apart = [mine - other for mine, other in pairs if mine is not None and other is not None]
            beside = (Cell("base"), Cell(NOTHING)) if name == results.base else mean_cells(apart, DIGITS)
            cells = (mean_cells([*early.values()], DIGITS)[0], *mean_cells([*late.values()], DIGITS), *beside)
            rows.append([Cell(shortened_name(name)), Cell(role), *cells])
    columns = ("variant", f"silenced{results.at_size(size)}", "one of the first third of the layers",
               "one of the last third", "its 95 % interval", "last third, beside the base",
               "95 % interval of this difference")  # fmt: skip
    return ReportTable(columns, rows, keys=2) if rows else None


def draw_silenced(results: Results, size: str) -> Any:
    looks = looks_of(results)
    by_name = {name: runs_of(results, name, size) for name in looks}
    roles = list(dict.fromkeys(role for runs in by_name.values() for role in runs))[:PANELS]
    with panels(roles) as (figure, row):
        for axes, role in zip(row, roles, strict=True):
            whole_steps(axes, "layer" + results.at_size(size))
            axes.axhline(0, color=MUTED, linewidth=0.8)
            axes.set_yscale("symlog", linthresh=0.01)
            axes.yaxis.set_major_formatter("{x:g}")
            for name, look in looks.items():
                points = over_seeds(by_name[name].get(role, {}).values())
                draw_band(axes, points, look, name, marker=look.marker, markersize=3)
        row[0].set_ylabel("change of the loss where\nthe sublayer yields 0, nats", fontsize=8)
    return figure


def draw_alike(results: Results, size: str) -> Any:
    with panels([*QUANTITIES.values()], shared=False) as (figure, row):
        for axes, quantity in zip(row, QUANTITIES, strict=True):
            whole_steps(axes, "depth" + results.at_size(size))
            if quantity == "updates":
                plain_log(axes)
            for name, look in looks_of(results).items():
                points = quantity_of(results, name, size, quantity)
                draw_band(axes, points, look, name, marker=look.marker, markersize=3)
        row[0].set_ylim(None, 1.02)
    return figure
