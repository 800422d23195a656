"""Tasks of a Ray cluster: the one that RAY_ADDRESS names, else one that is started on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ...extras import need
from ..engine import Queue, engines
from ..records import Job, Outcome
from ..running import run_job
from ..store import Store

LOOK = 1.0  # seconds between looks at what runs


@engines.register("ray", needs=["ray"])
class OnRay(Queue):
    """One task for each run; of a run on a GPU each has one."""

    def __init__(self, store: Store, at_once: int = 1) -> None:
        super().__init__(store, at_once)
        self.ray: Any = need("ray", "the engine ray")
        self.started = not self.ray.is_initialized()
        if self.started:
            here = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": at_once, "include_dashboard": False}
            self.ray.init(log_to_driver=False, **here)

    def submit(self, job: Job) -> Any:
        graphics = 1 if str(job.config.get("device", "")).startswith("cuda") else 0
        return self.ray.remote(num_cpus=1, num_gpus=graphics, max_retries=0)(run_job).remote(job, self.store)

    def wait_for(self, submitted: Sequence[Any]) -> list[Any]:
        ended, _ = self.ray.wait(submitted, timeout=LOOK)
        return list(ended)

    def outcome_of(self, submitted: Any) -> Outcome | str:
        try:
            outcome: Outcome = self.ray.get(submitted)
        except self.ray.exceptions.RayError as error:
            return str(error).splitlines()[0]
        return outcome

    def close(self) -> None:
        if self.started:
            self.ray.shutdown()
            self.started = False
