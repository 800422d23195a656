"""What a person sees while jobs run: a line for each that ended, one that changes in place for those that run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from ..cost.words import duration
from ..structured import parse_json
from ..training.progress import Progress
from .records import Arm, Job, Key, Outcome
from .store import Store

TAIL_BYTES = 65536  # at the end of a log, which are read


class Board:
    """Shows how far a comparison is.

    arms     with what a run of each costs, for the time left
    at_once  runs at the same time
    planned  runs of the whole comparison, as far as they are known
    """

    def __init__(
        self, shown: Progress, store: Store, arms: Sequence[Arm] = (), at_once: int = 1, planned: int = 0
    ) -> None:
        self.shown, self.store, self.at_once, self.planned_runs = shown, store, at_once, planned
        self.seconds: dict[Key, list[float]] = {}
        self.planned = {arm.arm_key: (arm.costs.seconds, arm.costs.steps) for arm in arms}
        self.waiting: dict[str, Job] = {}
        self.done = 0
        self.begun = time.time()

    @property
    def total(self) -> int:
        return max(self.planned_runs, self.done + len(self.waiting))

    def say(self, text: str, warning: bool = False) -> None:
        """A line that stays."""
        self.shown.say(text, warning=warning)

    def expect(self, jobs: Sequence[Job], known: int = 0) -> None:
        """Jobs that are to be run now, beside those that are known."""
        self.waiting = {job.key: job for job in jobs}
        self.done += known

    def ended(self, outcome: Outcome) -> None:
        """Say what came of a job."""
        job = self.waiting.pop(outcome.key)
        self.done += 1
        self.seconds.setdefault(job.arm_key, []).append(outcome.seconds)
        result = outcome.status if outcome.score is None else f"{outcome.score:.4f}"
        text = f"{name_of(job)}: {result} in {duration(outcome.seconds)}; {self.left}"
        self.say(f"{self.done}/{self.total}  {text}")

    def look(self) -> None:
        """Show those that run now, as their logs say."""
        running = [(job, self.step_of(job)) for job in self.waiting.values()]
        parts = [f"{name_of(job)} {self.share(job, step)}" for job, step in running if step is not None]
        self.shown.busy(f"{self.done}/{self.total} done, {self.left}; {'; '.join(parts) or 'starting'}")

    def share(self, job: Job, step: int) -> str:
        """'40 %', or 'step 120' where the number of steps is not known."""
        steps = self.planned.get(job.arm_key, (None, 0))[1]
        return f"{100 * step / steps:.0f} %" if steps else f"step {step:,}"

    def step_of(self, job: Job) -> int | None:
        """The step that a run has reached; None of one that does not run now."""
        log = self.store.folder_of(job) / "log.jsonl"
        try:
            return last_step(log) if log.stat().st_mtime >= self.begun else None
        except OSError:
            return None

    @property
    def left(self) -> str:
        """'about 12 min 0 s left': by the runs that have ended, else by the plan."""
        known = [one for each in self.seconds.values() for one in each]
        usual = fmean(known) if known else 0.0
        seconds = usual * (self.total - self.done - len(self.waiting))
        for job in self.waiting.values():
            planned, _ = self.planned.get(job.arm_key, (None, 0))
            seconds += fmean(self.seconds[job.arm_key]) if job.arm_key in self.seconds else planned or usual
        return f"about {duration(seconds / self.at_once)} left" if seconds else "the last one"


def name_of(job: Job) -> str:
    """'pre-norm, small, learning rate 0.01, seed 3'."""
    size = "" if job.size == "only" else f", {job.size}"
    return f"{job.variant}{size}, learning rate {job.lr:.3g}, seed {job.seed}"


def last_step(log: Path) -> int:
    """The step of the last whole line of a log; 0 for none."""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        try:
            event = parse_json(line)
        except ValueError:
            continue
        if isinstance(event, Mapping) and isinstance(event.get("step"), int):
            return int(event["step"])
    return 0
