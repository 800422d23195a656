"""What happened inside a model while it was trained, by depth, from the telemetry in the run's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..figure import new_panels
from ..runs.folder import RunFolder
from ..runs.log import is_number, read_log
from .shown import Shown, draw_by_depth, table_by_depth

KINDS = ("streams", "updates", "writes", "coefficients", "spreads", "gradients")
"""What an event holds, each a mapping from names to lists by depth: `training/telemetry.py` says what they are."""
TITLES = {"streams": "RMS of the stream", "updates": "update ratio", "gradients": "norm of the gradient"}
"""What tables and pictures show of these."""


@dataclass(frozen=True, repr=False)
class RunTelemetry(Shown):
    """What `inspect(run, "training")` returns: the start, the middle and the end in words and picture, all in `.data`.

    events  of the log, in order: their "step", and what is listed in KINDS
    """

    folder: Path
    events: Sequence[Mapping[str, Any]]
    title = "telemetry by depth"

    @property
    def data(self) -> dict[str, Any]:
        """`steps`, and by kind and name for each of them a list by depth, None where a step has none."""
        lists = {
            kind: {name: [event.get(kind, {}).get(name) for event in self.events] for name in self.names(kind)}
            for kind in KINDS
        }
        return {"look": "training", "folder": str(self.folder), "steps": [e["step"] for e in self.events], **lists}

    def names(self, kind: str) -> list[str]:
        """All names of a kind: "x", "encoder.x"."""
        return list(dict.fromkeys(name for event in self.events for name in event.get(kind, {})))

    @property
    def chosen(self) -> dict[str, Mapping[str, Any]]:
        """The events at the start, in the middle and at the end, by their steps."""
        middle = min(self.events, key=lambda event: abs(event["step"] - self.events[-1]["step"] / 2))
        return {f"step {event['step']:,}": event for event in (self.events[0], middle, self.events[-1])}

    def tables(self) -> Iterator[tuple[str, str, dict[str, Sequence[float | None]]]]:
        """What each table and each panel holds: kind, title, and a list by depth for each chosen step."""
        for kind, words in TITLES.items():
            for name in self.names(kind):
                title = words if len(self.names(kind)) == 1 else f"{words}: {name}"
                yield kind, title, {step: event.get(kind, {}).get(name, ()) for step, event in self.chosen.items()}

    def __repr__(self) -> str:
        return "\n\n".join(
            "\n".join([title, *table_by_depth(["layer", *lists], [*lists.values()], first_of(kind))])
            for kind, title, lists in self.tables()
        )

    @cached_property
    def figure(self) -> Any:
        """By depth, on logarithmic axes: the sizes of the streams, the update ratios, the gradients."""
        tables = list(self.tables())
        with new_panels([3.6] * len(tables)) as (figure, panels):
            for axes, (kind, title, lists) in zip(panels, tables, strict=True):
                draw_by_depth(axes, title, lists, first=first_of(kind), log=True)
        return figure


def first_of(kind: str) -> int:
    """The layer of a list's first value: streams begin with what enters layer 1."""
    return 0 if kind == "streams" else 1


def read_telemetry(folder: Path | str) -> RunTelemetry:
    """The telemetry of a run's folder. Raises CheckpointError where its log has none."""
    run = RunFolder.open(folder)
    events = [event for event in read_log(run.log.path) if event.get("event") == "telemetry"]
    by_step = {event["step"]: event for event in events if is_number(event.get("step"))}
    if not by_step:
        what = f"{run.path}: the run's log has no telemetry"
        raise CheckpointError(f"{what}; it is written unless telemetry_every is 0, for models that a formula made")
    return RunTelemetry(run.path, [by_step[step] for step in sorted(by_step)])
