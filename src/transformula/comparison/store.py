"""The store of runs: a folder for each, named by the key of all that decides its numbers.

KEY/            an ordinary run's folder, as `train` leaves it, without the checkpoints of a run that has ended
KEY/outcome.json  what came of it; written whole, last: a run without it goes on
.locks/KEY      held by the process that makes the run
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from ..atomic_io import flocked, write_whole
from ..errors import CheckpointError
from ..plain import plain
from ..runs.folder import CONFIG
from ..structured import Malformed, load_json
from .records import Job, Outcome

OUTCOME = "outcome.json"
WAIT = 0.2  # seconds between looks at a run that another process makes


class Store:
    """Runs that were made, and those that are being made."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).expanduser()

    def folder_of(self, job: Job) -> Path:
        return self.path / job.key

    def begun(self, job: Job) -> bool:
        """Whether the run has a folder that it can go on in."""
        return (self.folder_of(job) / CONFIG).is_file()

    def outcome_of(self, job: Job) -> Outcome | None:
        """What came of a job, under its own name; None where it has not ended, or failed in a way that may pass."""
        try:
            read = load_json(self.folder_of(job) / OUTCOME)
        except FileNotFoundError:
            return None
        except (OSError, Malformed) as error:
            raise CheckpointError(f"{self.folder_of(job) / OUTCOME}: damaged ({error}); take it away") from None
        outcome = outcome_of_data(read)
        if outcome.status == "failed":
            return None
        return replace(outcome, variant=job.variant, size=job.size, stage=job.stage)

    def complete(self, job: Job) -> Outcome | None:
        """What came of a job, with all that it asks for; None where something is left to do."""
        outcome = self.outcome_of(job)
        lacks = outcome is not None and (outcome.lacks_samples(job) or outcome.lacks_inspection(job))
        return None if lacks else outcome

    def keep(self, job: Job, outcome: Outcome) -> Outcome:
        """Write what came of a job, and remove what only a run needs that goes on."""
        folder = self.folder_of(job)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / OUTCOME, (json.dumps(plain(asdict(outcome)), indent=1) + "\n").encode())
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        return outcome

    def forget(self, job: Job) -> None:
        """Remove the folder of a run that cannot go on."""
        shutil.rmtree(self.folder_of(job), ignore_errors=True)

    @contextmanager
    def held(self, job: Job) -> Iterator[None]:
        """Hold a job's folder. Where another process makes the run, wait for it: it may be done then."""
        locks = self.path / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        with open(locks / job.key, "a") as handle:
            while not flocked(handle.fileno()):
                time.sleep(WAIT)
            yield


def outcome_of_data(data: Mapping[str, Any]) -> Outcome:
    """An outcome as JSON has it; keys of other versions are passed over."""
    known = {field.name for field in fields(Outcome)}
    read = {key: value for key, value in data.items() if key in known}
    for key in ("curve", "evaluated"):
        read[key] = tuple(tuple(point) for point in read.get(key, ()))
    for key in ("rows", "weights", "telemetry", "samples"):
        read[key] = tuple(read.get(key, ()))
    return Outcome(**read)
