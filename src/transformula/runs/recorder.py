"""What a recorder is: it writes a run down in another program's record, from the events of the run's log.

A recorder is one file in `recorders/`, or in a package that the user names, with a class under
`@recorders.register("name")`. It runs in a thread of its own (`records.py`), so that the training never waits for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..registry import Registry
from .log import is_number

recorders: Registry[type[Recorder]] = Registry("recorder", "transformula.runs.recorders", "@recorders.register(")

PLACES = {"step": "train", "evaluation": "validation"}
"""How the names of an event's numbers begin; those of others begin with the name of the event."""
MAX_LAYERS = 12  # of a list by depth so many layers are recorded at most, spread evenly from the first to the last
FINISHED, INTERRUPTED, FAILED = "finished", "interrupted", "failed"


@dataclass(frozen=True)
class Recorded:
    """What a recorder is told of its run.

    folder    of the run
    identity  what tells the run from all others
    config    the complete configuration, as config.yaml has it
    about     its manifest: versions, machine, data
    unit      what the task counts: "tokens"
    step      the step after which this sitting goes on; 0: it begins
    kept      what the recorder's `keep` was in an earlier sitting; None: the record is new
    """

    folder: Path
    identity: str
    config: Mapping[str, Any]
    about: Mapping[str, Any]
    unit: str = "tokens"
    step: int = 0
    kept: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The run's name, that of its folder."""
        return self.folder.resolve().name

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that have a value, without groups: {"lora.rank": 8}."""
        return dict(flat(self.config, "."))


class Recorder(ABC):
    """One record of one run: opened when it is made, closed by `close`. Whatever fails raises; the run goes on.

    overwrites  points after `run.step` that an earlier sitting wrote are hidden by what opens the record again; else
                the sitting writes only what is not there yet
    where       where the record lies, in words, for whoever trains
    """

    overwrites = False
    where = ""

    def __init__(self, run: Recorded) -> None:
        self.run = run

    @property
    def keep(self) -> Mapping[str, Any]:
        """Plain data by which a later sitting finds this record again: `run.kept`."""
        return {}

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take one event of the log: its numbers by name, and a text that the model wrote."""
        step = int(event.get("step") or 0)
        if values := scalars_of(event, self.run.unit):
            self.scalars(step, values)
        if sample := event.get({"end": "sample", "sample": "text"}.get(str(event.get("event")), "")):
            self.text(step, "sample", str(sample))

    @abstractmethod
    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Record numbers: {"train/loss": 2.3, "train/lr": 0.01}. `final/...` are the scores of the kept model."""

    @abstractmethod
    def text(self, step: int, name: str, text: str) -> None:
        """Record a text."""

    def close(self, status: str) -> None:
        """Write all that is left. status: "finished", "interrupted" or "failed"."""
        return None


def scalars_of(event: Mapping[str, Any], unit: str = "tokens") -> dict[str, float]:
    """The numbers of an event of the log by name.

    A training step's begin with "train/", an evaluation's with "validation/", those of an evaluation on a sample of the
    validation set with "validation-sample/", the scores at the end with "final/". Numbers by depth have the layer at
    their end: "telemetry/gradients/layers/01".
    """
    kind = str(event.get("event", ""))
    place = PLACES.get(kind, kind.replace(" ", "-"))
    if kind == "evaluation" and event.get("sample"):
        place = "validation-sample"
    count = unit.replace(" ", "_")
    names = {"rate": f"{count}_per_second", "units": count}
    numbers = {names.get(key, key): value for key, value in event.items() if key not in ("event", "step")}
    if kind == "end":
        scores = event.get("scores")
        place, numbers = "final", dict(scores) if isinstance(scores, Mapping) else {}
    if kind == "resumed":  # it tells of limits
        numbers = {}
    return {f"{place}/{name}": float(value) for name, value in flat(by_depth(numbers), "/") if is_number(value)}


def by_depth(values: Mapping[str, Any], first: int = 1) -> dict[str, Any]:
    """Lists by depth as mappings from layers, at most MAX_LAYERS of them. `streams` begin with what enters layer 1."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            made[name] = by_depth(value, 0 if name == "streams" else 1)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            last, most = len(value) - 1, min(len(value), MAX_LAYERS)
            chosen = [round(n * last / max(1, most - 1)) for n in range(most)]
            made[name] = {f"{first + index:02d}": value[index] for index in chosen}
        else:
            made[name] = value
    return made


def flat(values: Mapping[str, Any], between: str) -> Iterator[tuple[str, Any]]:
    """(name, value) of mappings in mappings: "lora.rank". What has no value is left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}{between}{inner}", one) for inner, one in flat(value, between))
        elif value is not None:
            yield name, value


def indented(text: str) -> str:
    """A block of Markdown that is shown as it is."""
    return "\n".join(f"    {line}" for line in text.splitlines())
