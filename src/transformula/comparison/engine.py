"""An engine runs jobs and yields what came of them, as they end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from ..errors import Interrupted
from ..registry import Registry
from .board import Board
from .records import Job, Outcome
from .running import outcome_of_log
from .store import Store

engines: Registry[type[Engine]] = Registry("engine", "transformula.comparison.engines", "@engines.register(")

TRIES = 3  # of a run whose process was killed


class Engine(ABC):
    """Runs jobs. Use it in a `with` block, which ends what is still running.

    at_once  runs at the same time, at most
    """

    def __init__(self, store: Store, at_once: int = 1) -> None:
        self.store, self.at_once = store, at_once

    @abstractmethod
    def run(self, jobs: Sequence[Job], board: Board) -> Iterator[Outcome]:
        """What came of jobs, as they end. Calls `board.look()` about once a second while it waits."""

    def close(self) -> None:
        """End what runs: it saves, and goes on when its job is run again."""
        return

    def killed(self, job: Job, how: str) -> Outcome:
        """The outcome of a job whose process was killed each time."""
        reason = f"its process was ended {TRIES} times ({how}), as by the system where memory is short"
        return self.store.keep(job, outcome_of_log(job, self.store.folder_of(job), "failed", reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Queue(Engine):
    """An engine that hands jobs to something else, at most `at_once` of them at the same time, and looks what came of
    them. A job whose process was killed is handed over again."""

    def __init__(self, store: Store, at_once: int = 1) -> None:
        super().__init__(store, at_once)
        self.running: list[tuple[Job, Any, int]] = []  # the job, what `submit` returned, and which attempt it is

    @abstractmethod
    def submit(self, job: Job) -> Any:
        """Hand a job over."""

    @abstractmethod
    def wait_for(self, submitted: Sequence[Any]) -> Sequence[Any]:
        """Those that have ended, after a while of waiting."""

    @abstractmethod
    def outcome_of(self, submitted: Any) -> Outcome | str:
        """What came of a job that has ended; or how its process was killed."""

    def run(self, jobs: Sequence[Job], board: Board) -> Iterator[Outcome]:
        ahead = [(job, 1) for job in reversed(jobs)]
        while ahead or self.running:
            while ahead and len(self.running) < self.at_once:
                job, attempt = ahead.pop()
                self.running.append((job, self.submit(job), attempt))
            ended = self.wait_for([submitted for _, submitted, _ in self.running])
            for row in [row for row in self.running if row[1] in ended]:
                self.running.remove(row)
                job, submitted, attempt = row
                outcome = self.outcome_of(submitted)
                if isinstance(outcome, Outcome):
                    yield outcome
                elif attempt < TRIES:
                    ahead.append((job, attempt + 1))
                else:
                    yield self.killed(job, outcome)
            board.look()


def outcomes_of(jobs: Sequence[Job], engine: Engine, board: Board) -> list[Outcome]:
    """What came of jobs, in their order. Those in the store are taken from there, and of equal ones one is run.

    Raises Interrupted where Ctrl-C ended it: what is done is kept.
    """
    known = {job.key: engine.store.complete(job) for job in jobs}
    missing = list({job.key: job for job in reversed(jobs) if known[job.key] is None}.values())[::-1]
    board.expect(missing, len({*known}) - len(missing))
    try:
        for outcome in engine.run(missing, board) if missing else ():
            known[outcome.key] = outcome
            board.ended(outcome)
    except KeyboardInterrupt:
        engine.close()
        raise Interrupted("interrupted") from None
    outcomes = [(job, known[job.key]) for job in jobs]
    return [replace(o, variant=job.variant, size=job.size, stage=job.stage) for job, o in outcomes if o is not None]
