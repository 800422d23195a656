"""Several processes on this machine, each with one thread. A process makes one run after the other: to start one, with
torch, takes seconds, more than a small run.

A process is asked by a line of JSON on its standard input, and answers by one on its standard output. It shares no
signals with this one: where its input ends, because this process closes it or was killed, it saves and ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any

from ...errors import shortened
from ..board import Board
from ..engine import TRIES, Engine, engines
from ..records import Job, Outcome
from ..store import Store, outcome_of_data

LOOK = 1.0  # seconds between looks at what runs
GRACE = 60.0  # seconds that a process may take to save


class Worker:
    """A process that makes runs."""

    def __init__(self, store: Store, environment: Mapping[str, str]) -> None:
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "transformula.comparison.worker", str(store.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True,
            env={**os.environ, **environment},
        )  # fmt: skip

    def run(self, job: Job) -> Outcome | None:
        """What came of a job; None where the process ended before it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except (OSError, ValueError):  # it has ended, or was closed
            return None
        return outcome_of_data(json.loads(answer)) if answer.endswith(b"\n") else None

    @property
    def last_words(self) -> str:
        """How the process ended, with the last line that it printed."""
        status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").strip().splitlines()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"{how}: {shortened(lines[-1], 200)}" if lines else how

    def close(self) -> None:
        """Close its input, upon which it saves and ends."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def end(self) -> None:
        """Wait until it has ended; kill it where it takes too long."""
        try:
            self.process.wait(GRACE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()
        self.errors.close()


@engines.register("local")
class Local(Engine):
    """Runs `at_once` jobs at the same time; on several GPUs each process sees one of them."""

    def __init__(self, store: Store, at_once: int = 1) -> None:
        super().__init__(store, at_once)
        self.workers: dict[int, Worker] = {}
        self.closed = False

    def run(self, jobs: Sequence[Job], board: Board) -> Iterator[Outcome]:
        places: SimpleQueue[int] = SimpleQueue()
        count = min(self.at_once, len(jobs))
        for place in range(count):
            places.put(place)

        def one(job: Job) -> Outcome | None:
            place = places.get()
            try:
                return self.attempt(job, place)
            finally:
                places.put(place)

        pool = ThreadPoolExecutor(count)
        try:
            running: set[Future[Outcome | None]] = {pool.submit(one, job) for job in jobs}
            while running:
                ended, running = wait(running, LOOK, FIRST_COMPLETED)
                board.look()
                yield from (outcome for future in ended if (outcome := future.result()) is not None)
        finally:
            for future in running:
                future.cancel()
            if running:
                self.close()
            pool.shutdown()

    def attempt(self, job: Job, place: int) -> Outcome | None:
        """Run a job in a process, in another one where that was killed; None once the engine is closed."""
        how = ""
        for _ in range(TRIES):
            outcome = None if self.closed else self.worker(place).run(job)
            if outcome is not None or self.closed:
                return outcome
            how = self.workers.pop(place).last_words
        return self.killed(job, how)

    def worker(self, place: int) -> Worker:
        """The process of a place, started where there is none."""
        if place not in self.workers:
            self.workers[place] = Worker(self.store, environment_of(place))
        return self.workers[place]

    def close(self) -> None:
        self.closed = True
        workers = [*self.workers.values()]
        for worker in workers:
            worker.close()
        for worker in workers:
            worker.end()
        self.workers.clear()


def environment_of(place: int) -> dict[str, str]:
    """The environment of the process of a place: one thread, the same modules as here, one of the GPUs."""
    import torch

    environment: dict[str, Any] = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    graphics = torch.cuda.device_count()
    if graphics > 1:
        environment["CUDA_VISIBLE_DEVICES"] = str(place % graphics)
    return environment
