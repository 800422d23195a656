"""The number of threads of a run that the clock ends, measured again while it runs.

What else a machine does changes. A run that began beside a busy process would stay on one thread when that has ended,
and one with a thread for each core falls to a tenth of its speed when another process begins. So threads are measured
every minute, and at once where steps become much slower. The run's own steps are measured, so that little is lost. A
run of a number of steps, whose numbers must not depend on the clock, keeps what it began with.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch

from .choices import fewest_threads, line_of_threads
from .disk import Disk
from .state import RunState

TURNS = 2
EVERY_SECONDS = 60.0  # between two measurements, at least
MAX_SHARE = 0.03  # of the run's time that these measurements take
SLOWER, IN_A_ROW = 2.0, 3  # so many steps that take so many times as long as usual are measured at once
FIRST = 10  # steps, whose median is usual until the first measurement


class ThreadTrials:
    """Trials in a run: `before` each step, and `after` it with the seconds that it took.

    What is usual is what the last trial measured. So a trial that finds nothing faster makes the slow steps usual ones,
    and only steps of twice their time cause another before its time.

    counts  numbers of threads that are tried
    usual   seconds of a step, None in the first steps
    slow    how many steps in a row took much longer
    """

    def __init__(self, state: RunState, disk: Disk, counts: Sequence[int]) -> None:
        self.state, self.disk, self.counts = state, disk, counts
        # a first step with another number of threads starts them, and is not measured
        self.plan = [(count, measured) for _ in range(TURNS) for count in counts for measured in (False, True)]
        self.next = len(self.plan)
        self.last = 0.0
        self.took: dict[int, list[float]] = {}
        self.first: list[float] = []
        self.usual: float | None = None
        self.slow = 0

    def before(self) -> None:
        state = self.state
        if self.next == len(self.plan):
            pause = max(EVERY_SECONDS, len(self.plan) * state.step_seconds / MAX_SHARE)
            if self.slow < IN_A_ROW and (not state.step_seconds or state.seconds - self.last < pause):
                return
            self.next, self.took = 0, {count: [] for count in self.counts}
        torch.set_num_threads(self.plan[self.next][0])

    def after(self, seconds: float) -> None:
        if self.next == len(self.plan):
            self._watch(seconds)
            return
        count, measured = self.plan[self.next]
        self.took[count] += [seconds] if measured else []
        self.next += 1
        if self.next == len(self.plan):
            self._choose({count: statistics.median(each) for count, each in self.took.items()})

    def _watch(self, seconds: float) -> None:
        """Count the slow steps between two trials."""
        if self.usual is None:
            self.first.append(seconds)
            self.usual = statistics.median(self.first) if len(self.first) == FIRST else None
        else:
            self.slow = self.slow + 1 if seconds > SLOWER * self.usual else 0

    def _choose(self, took: dict[int, float]) -> None:
        """Go on with the better number, say it where it is another one, and let a resume begin with it."""
        state, count = self.state, fewest_threads(took)
        self.last, self.usual, self.slow = state.seconds, took[count], 0
        torch.set_num_threads(count)
        if count == state.settings.threads:
            return
        state.settings = state.settings.model_copy(update={"threads": count})
        state.folder.write_config({**state.folder.config(), "threads": count})
        state.shown.say(f"step {state.position.step:,}: {line_of_threads(count, took)}")
        self.disk.log("threads", step=state.position.step, threads=count)
