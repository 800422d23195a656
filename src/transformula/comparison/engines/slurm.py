"""Jobs of a cluster's queue, by submitit. Partition, account and time limit are said as for every job of Slurm, in the
environment: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, ... A job that the queue takes back is given again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...extras import need
from ..engine import Queue, engines
from ..records import Job, Outcome
from ..running import run_job

LOOK = 5.0  # seconds between looks at the queue


@engines.register("slurm", needs=["submitit"])
class Slurm(Queue):
    """One job of the queue for each run."""

    cluster = "slurm"
    look = LOOK

    @cached_property
    def executor(self) -> Any:
        submitit: Any = need("submitit", "the engine slurm")
        executor = submitit.AutoExecutor(folder=self.store.path / ".slurm", cluster=self.cluster)
        executor.update_parameters(name="transformula", cpus_per_task=1, tasks_per_node=1)
        return executor

    def submit(self, job: Job) -> Any:
        return self.executor.submit(run_job, job, self.store)

    def wait_for(self, submitted: Sequence[Any]) -> list[Any]:
        ended = [one for one in submitted if one.done()]
        if not ended:
            time.sleep(self.look)
        return ended

    def outcome_of(self, submitted: Any) -> Outcome | str:
        error = submitted.exception()
        return submitted.result() if error is None else f"job {submitted.job_id}: {error}"

    def close(self) -> None:
        for _, submitted, _ in self.running:
            submitted.cancel()
        self.running.clear()
