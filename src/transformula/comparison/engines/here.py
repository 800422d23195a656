"""In this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..board import Board
from ..engine import Engine, engines
from ..records import Job, Outcome
from ..running import run_job


@engines.register("here")
class Here(Engine):
    """Runs one job after the other, whatever `at_once` says."""

    def run(self, jobs: Sequence[Job], board: Board) -> Iterator[Outcome]:
        for job in jobs:
            board.look()
            yield run_job(job, self.store)
