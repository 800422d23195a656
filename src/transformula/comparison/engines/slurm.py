"""Jobs of a cluster's queue, by submitit. Partition, account and time limit are said as for every job of Slurm, in the
environment: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, ... A job that the queue takes back is given again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ...extras import need
from ..board import Board
from ..engine import TRIES, Engine, engines
from ..records import Job, Outcome
from ..running import run_job
from ..store import Store

LOOK = 5.0  # seconds between looks at the queue


@engines.register("slurm", needs=["submitit"])
class Slurm(Engine):
    """One job of the queue for each run, at most `at_once` of them at the same time."""

    cluster = "slurm"
    look = LOOK

    def __init__(self, store: Store, at_once: int = 1) -> None:
        super().__init__(store, at_once)
        self.executor: Any = None
        self.running: dict[str, tuple[Job, Any, int]] = {}

    def run(self, jobs: Sequence[Job], board: Board) -> Iterator[Outcome]:
        if self.executor is None:
            submitit: Any = need("submitit", "the engine slurm")
            self.executor = submitit.AutoExecutor(folder=self.store.path / ".slurm", cluster=self.cluster)
            self.executor.update_parameters(name="transformula", cpus_per_task=1, tasks_per_node=1)
        ahead = [(job, 1) for job in reversed(jobs)]
        while ahead or self.running:
            while ahead and len(self.running) < self.at_once:
                job, attempt = ahead.pop()
                self.running[job.key] = job, self.executor.submit(run_job, job, self.store), attempt
            for job, submitted, attempt in [*self.running.values()]:
                if not submitted.done():
                    continue
                del self.running[job.key]
                error = submitted.exception()
                if error is None:
                    yield submitted.result()
                elif attempt < TRIES:
                    ahead.append((job, attempt + 1))
                else:
                    yield self.killed(job, f"job {submitted.job_id}: {error}")
            board.look()
            time.sleep(self.look if self.running else 0)

    def close(self) -> None:
        for _, submitted, _ in self.running.values():
            submitted.cancel()
        self.running.clear()
