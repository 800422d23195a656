"""The store of runs: a folder for each, named by the key of all that decides its numbers.

KEY/            an ordinary run's folder, as `train` leaves it, without the checkpoints of a run that has ended
KEY/outcome.json  what came of it; written whole, last: a run without it goes on
.locks/KEY      held by the process that makes the run
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from ..atomic_io import flocked, write_whole
from ..errors import CheckpointError
from ..plain import plain
from ..runs.folder import CONFIG
from ..settings import read_back
from ..structured import Malformed, load_json, load_yaml
from .records import Job, Outcome

OUTCOME = "outcome.json"
NEVER_NEGATIVE = ("loss", "bits_per_byte", "perplexity")  # scores
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
        """What came of a job, under its own name; None where it has not ended, or failed in a way that may pass. Raises
        CheckpointError where the folder holds something else."""
        path = self.folder_of(job) / OUTCOME
        try:
            outcome = outcome_of_data(load_json(path))
            check_is_of(job, outcome)
        except FileNotFoundError:
            return None
        except (OSError, Malformed) as error:
            remedy = f"take the folder {path.parent} away, and the run is made again"
            raise CheckpointError(f"{path}: not what came of this run ({error}); {remedy}") from None
        if outcome.status == "failed":
            return None
        return replace(outcome, variant=job.variant, size=job.size, stage=job.stage)

    def outcomes(self) -> Iterator[Outcome]:
        """What came of all runs of the store, whatever comparison they were made for; what cannot be read, or lies in
        another run's folder, is passed over."""
        for path in sorted(self.path.glob(f"*/{OUTCOME}")):
            with suppress(OSError, Malformed):
                outcome = outcome_of_data(load_json(path))
                if outcome.key == path.parent.name:
                    yield outcome

    def alike(self, config: Mapping[str, Any], score: str) -> list[tuple[float, dict[int, float]]]:
        """Earlier runs that confirmed an arm on the same data, an arm each: how many times the steps of `config` they
        made, from half to twice as many, and their scores by seed."""
        found: dict[str, tuple[float, dict[int, float]]] = {}
        for outcome in self.outcomes():
            with suppress(OSError, Malformed, KeyError, TypeError, AttributeError):
                own = load_yaml(self.path / outcome.key / CONFIG)
                seed, steps = own.pop("seed"), own["steps"] / config["steps"]
                like = all(own.get(key) == config.get(key, own.get(key)) for key in ("task", "data", "tokenizer"))
                if outcome.stage == "confirm" and like and 0.5 <= steps <= 2:
                    arm = json.dumps(own, sort_keys=True, default=str)
                    found.setdefault(arm, (steps, {}))[1][seed] = outcome.scores[score]
        return [*found.values()]

    def complete(self, job: Job) -> Outcome | None:
        """What came of a job, with all that it asks for; None where something is left to do."""
        outcome = self.outcome_of(job)
        return None if outcome is None or outcome.lacks(job) else outcome

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


def outcome_of_data(data: Any) -> Outcome:
    """An outcome as JSON has it; keys of other versions, and scores that were not finite, are passed over. Raises
    Malformed for what is none."""
    known = {field.name for field in fields(Outcome)}
    if isinstance(data, dict):
        data = {key: finite(value) if key == "scores" else value for key, value in data.items() if key in known}
    outcome: Outcome = read_back(Outcome, data, "outcome")
    return outcome


def finite(scores: Any) -> Any:
    return {name: score for name, score in scores.items() if score is not None} if isinstance(scores, dict) else scores


def check_is_of(job: Job, outcome: Outcome) -> None:
    """Raise Malformed for what another run has left, or no run can."""
    said = {"key": (outcome.key, job.key), "seed": (outcome.seed, job.seed)}
    said |= {"learning rate": (f"{outcome.lr:.12g}", f"{job.lr:.12g}")}
    for name, (theirs, ours) in said.items():
        if theirs != ours:
            raise Malformed(f"its {name} is {theirs}, and that of this run {ours}")
    score = outcome.score
    if outcome.status != "done":
        return
    if score is None or not math.isfinite(score):
        raise Malformed("it is done and has no score")
    if score != outcome.scores.get(job.score, score) or (job.score in NEVER_NEGATIVE and score < 0):
        raise Malformed(f"its score is {score:g}, which is none that this run can have")
