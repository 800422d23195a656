"""A process that makes runs for the engine `local`: jobs come on standard input, a line of JSON each, and what came of
them goes out on standard output. Where the input ends, the run is asked to end: it saves, and so does the process.

    python -m transformula.comparison.worker STORE
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue

from ..errors import Interrupted
from ..plain import plain
from .records import Job
from .running import run_job
from .store import Store


def main() -> int:
    store, jobs = Store(sys.argv[1]), SimpleQueue[str]()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a run prints is no answer

    def listen() -> None:
        for line in sys.stdin:
            jobs.put(line)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=listen, daemon=True).start()
    with suppress(Interrupted):
        while True:
            outcome = run_job(Job(**json.loads(jobs.get())), store)
            answers.write(json.dumps(plain(asdict(outcome))) + "\n")
            answers.flush()
    return Interrupted.exit_status


if __name__ == "__main__":
    sys.exit(main())
