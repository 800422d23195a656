"""What happens inside: norms, updates and gradients by depth, at the start of training, in its middle, at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ....figure import plain_log, whole_steps
from ....runs.log import is_number
from ...records import Outcome, Results
from ..document import Item, Paragraph, Picture, ReportSection, section
from ..drawing import Look, Range, draw_band, looks_of, over_seeds, panels

QUANTITIES = {"streams": "RMS of the residual stream", "updates": "update ratio", "gradients": "norm of the gradient"}
"""Fields of an event of telemetry (see training/telemetry.py) and their words."""
CAPTION = (
    "At the start, in the middle and at the end of training: the mean over seeds, and a band from the lowest to the"
    " highest seed. Depth 0 is what enters the first layer. Update ratio: RMS of what a layer changes in the stream,"
    " over that of the stream. Norm of the gradient: of the parameters of each layer, before it is clipped. Of several"
    " streams each has a line; the first has the marks."
)
Profile = dict[tuple[str, int], float]  # (stream or stack, depth) -> value


@section(100)
def by_depth(results: Results) -> ReportSection | None:
    items: list[Item] = [
        Picture(
            f"{quantity}-{size}",
            f"{words} by depth{results.at_size(size)}, at the start, in the middle and at the end of training",
            partial(draw, results, quantity, size),
            wide=True,
        )
        for quantity, words in QUANTITIES.items()
        for size in results.sizes
        if any(profiles(o, quantity) for name in results.names for o in results.outcomes_of(name, size))
    ]
    return ReportSection("Inside, by depth", [Paragraph(CAPTION), *items]) if items else None


def profiles(outcome: Outcome, quantity: str) -> list[tuple[int, Profile]]:
    """(step, depth -> value) of the first event that has the quantity, of the one in the middle, of the last."""
    events = [(int(event.get("step", 0)), profile_of(event, quantity)) for event in outcome.telemetry]
    events = [(step, profile) for step, profile in events if profile]
    if len(events) < 3:
        return []
    middle = min(events, key=lambda event: abs(event[0] - (events[0][0] + events[-1][0]) / 2))
    return [events[0], middle, events[-1]]


def profile_of(event: Mapping[str, Any], quantity: str) -> Profile:
    """The values of one event; those that are not finite, or that a layer has none of, are left out."""
    rows: Mapping[str, Sequence[Any]] = event.get(quantity) or {}
    first = 0 if quantity == "streams" else 1
    return {(name, n): value for name, row in rows.items() for n, value in enumerate(row, first) if is_number(value)}


def draw(results: Results, quantity: str, size: str) -> Any:
    looks = looks_of(results)
    runs = {}
    for name in looks:
        known = [(o.status, p) for o in results.outcomes_of(name, size) if (p := profiles(o, quantity))]
        runs[name] = [p for status, p in known if status == "done"] or [p for _, p in known]
    steps = next(([step for step, _ in run] for rs in runs.values() for run in rs), [0, 0, 0])
    titles = [f"{when}, step {step:,}" for when, step in zip(("start", "middle", "end"), steps, strict=True)]
    with panels(titles) as (figure, row):
        for n, axes in enumerate(row):
            plain_log(axes)
            whole_steps(axes, "depth" + results.at_size(size))
            for name, look in looks.items():
                draw_profile(axes, over_seeds([run[n][1] for run in runs[name]]), look, name)
        row[0].set_ylabel(QUANTITIES[quantity])
    return figure


def draw_profile(axes: Any, points: Mapping[tuple[str, int], Range], look: Look, name: str) -> None:
    """A line for each stream, the first with marks and its place in the legend."""
    for n, stream in enumerate(dict.fromkeys(stream for stream, _ in points)):
        own = {depth: values for (other, depth), values in points.items() if other == stream}
        line: dict[str, Any] = {"linewidth": 0.8} if n else {"marker": look.marker, "markersize": 3}
        draw_band(axes, own, look, f"_{name}" if n else name, **line)
