"""Two runs of one configuration: where their logs first differ, and what differs in what they were made with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..interop.folder import WEIGHTS
from ..interop.weights import load_tensors

COMPARED = ("step", "evaluation", "mean of checkpoints", "telemetry", "not finite", "spike")
"""Events whose numbers follow from the configuration; others tell of resumes and faults."""
CLOCK = frozenset(("seconds", "rate", "share_of_peak", "waiting"))  # fields that differ whenever a run is made
MISSING = "missing"


@dataclass(frozen=True)
class Difference:
    """The first one: at which step, of what ("step", "evaluation", "weights"), its key, and both values."""

    step: int
    event: str
    key: str
    then: Any
    now: Any

    def __str__(self) -> str:
        what = "training" if self.event == "step" else self.event
        key = f"{what}, {self.key}" if self.key else what
        return f"step {self.step:,}, {key}: {self.then} then, {self.now} now"


class LogComparison:
    """Compares a log with the events of a run while it is made. Numbers are compared bit for bit.

    step  the last step up to which both are the same
    loss  the last loss of a training step that both have, else of an evaluation
    """

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.ahead = deque(event for event in events if event.get("event") in COMPARED)
        self.compared, self.step = 0, 0
        self.loss: float | None = None
        self.difference: Difference | None = None

    def hear(self, event: Mapping[str, Any]) -> None:
        """Compare the next event of the new run."""
        if self.difference is not None or event.get("event") not in COMPARED or not self.ahead:
            return
        then = self.ahead.popleft()
        found = first_difference(then, event)
        if found is not None:
            at = min(int(one.get("step") or 0) for one in (then, event))
            self.difference = Difference(at, str(then["event"]), *found)
            return
        self.compared, self.step = self.compared + 1, int(event.get("step") or 0)
        if event["event"] == "step" or self.loss is None:
            self.loss = event.get("loss", self.loss)

    def end(self) -> None:
        """The new run is at its end: what the log has beyond it is a difference."""
        if self.ahead and self.difference is None:
            then = self.ahead[0]
            self.difference = Difference(int(then.get("step") or 0), str(then["event"]), "", "there", MISSING)


def first_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """(key, value then, value now) of the first number that differs; None where none does."""
    for key in ("event", "step"):
        if then.get(key) != now.get(key):
            return key, then.get(key), now.get(key)
    return next(differing(then, now, CLOCK), None)


def differing(
    then: Mapping[str, Any], now: Mapping[str, Any], without: frozenset[str] = frozenset(), place: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """(key, value then, value now) of all that differs: "streams.x.2". NaN was written as null, and equals itself."""
    for key in [*then, *(key for key in now if key not in then)]:
        if key in without:
            continue
        a, b = then.get(key, MISSING), now.get(key, MISSING)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from differing(a, b, place=f"{place}{key}.")
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            yield from differing(dict(enumerate(a)), dict(enumerate(b)), place=f"{place}{key}.")  # type: ignore[arg-type]
        elif a != b:
            yield f"{place}{key}", a, b


def different_weights(then: Path, now: Path) -> tuple[str, str, str] | None:
    """The first tensor of two models' folders that differs, and how; None where none does."""
    import torch

    ours, theirs = load_tensors(then / WEIGHTS), load_tensors(now / WEIGHTS)
    for name in ours:
        if name not in theirs or ours[name].shape != theirs[name].shape:
            return name, f"{tuple(ours[name].shape)}", f"{tuple(theirs[name].shape)}" if name in theirs else MISSING
        if not torch.equal(ours[name], theirs[name]):
            index = int((ours[name] != theirs[name]).flatten().nonzero()[0])
            a, b = (tensors[name].flatten()[index].item() for tensors in (ours, theirs))
            return f"{name}[{index}]", repr(a), repr(b)
    return None


def different_environment(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs in two runs' manifests, in words; what one of them does not say is left out."""
    rows = differing(then, now, frozenset(("run", "length")))
    return [f"{key}: {a} then, {b} now" for key, a, b in rows if MISSING not in (a, b)]
