"""Tasks of a Ray cluster: the one that RAY_ADDRESS names, else one that is started on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from ...extras import need
from ..board import Board
from ..engine import TRIES, Engine, engines
from ..records import Job, Outcome
from ..running import run_job
from ..store import Store

LOOK = 1.0  # seconds between looks at what runs


@engines.register("ray", needs=["ray"])
class OnRay(Engine):
    """One task for each run, at most `at_once` of them at the same time; of a run on a GPU each has one."""

    def __init__(self, store: Store, at_once: int = 1) -> None:
        super().__init__(store, at_once)
        self.ray: Any = need("ray", "the engine ray")
        self.started = not self.ray.is_initialized()
        if self.started:
            here = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": at_once, "include_dashboard": False}
            self.ray.init(log_to_driver=False, **here)

    def run(self, jobs: Sequence[Job], board: Board) -> Iterator[Outcome]:
        ahead, running = [(job, 1) for job in reversed(jobs)], dict[Any, tuple[Job, int]]()
        while ahead or running:
            while ahead and len(running) < self.at_once:
                job, attempt = ahead.pop()
                running[self.submit(job)] = job, attempt
            done, _ = self.ray.wait([*running], timeout=LOOK)
            board.look()
            for task in done:
                job, attempt = running.pop(task)
                try:
                    yield self.ray.get(task)
                except self.ray.exceptions.RayError as error:
                    if attempt == TRIES:
                        yield self.killed(job, str(error).splitlines()[0])
                    else:
                        ahead.append((job, attempt + 1))

    def submit(self, job: Job) -> Any:
        graphics = 1 if str(job.config.get("device", "")).startswith("cuda") else 0
        return self.ray.remote(num_cpus=1, num_gpus=graphics, max_retries=0)(run_job).remote(job, self.store)

    def close(self) -> None:
        if self.started:
            self.ray.shutdown()
            self.started = False
