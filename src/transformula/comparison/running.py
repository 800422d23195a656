"""A job becomes an outcome: an ordinary run of `train` in the store, then `outcome.json`.

A run that diverged, or that failed, is an outcome with its reason. One that was stopped on the way (Ctrl-C, a machine
that went down) is none: it goes on from its checkpoint when the job is run again, with the same numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, Interrupted, NotFinite, TransformulaError
from ..inspection.overview import inspect_trained, learned_coefficients
from ..runs.log import is_number, read_log
from .costs import has_one_processor
from .records import Job, Outcome, Status
from .store import Store

if TYPE_CHECKING:
    from torch import nn

    from ..api.run import Run
    from ..tasks.base import Task


def run_job(job: Job, store: Store) -> Outcome:
    """Make a run, unless the store has it; returns what came of it. Raises Interrupted where it was asked to end."""
    with store.held(job):
        known = store.outcome_of(job)
        if known is not None:
            return complete(job, known, store)
        folder = store.folder_of(job)
        try:
            run = train_job(job, store)
        except NotFinite as error:
            where = f"; it first appears in {error.place}" if error.place else ""
            reason = f"step {error.step}: the loss or a gradient is not a finite number{where}"
            return store.keep(job, outcome_of_log(job, folder, "diverged", reason))
        except Interrupted:
            raise
        except TransformulaError as error:
            return store.keep(job, outcome_of_log(job, folder, "failed", str(error)))
        except Exception as error:  # of a word, a task or a library
            return store.keep(job, outcome_of_log(job, folder, "failed", f"{type(error).__name__}: {error}"))
        run.result.check_ended(f"{folder}: the run was interrupted; it goes on when the comparison does")
        return complete(job, store.keep(job, outcome_of_run(job, run)), store)


def train_job(job: Job, store: Store) -> Run:
    """The run of a job: a new one, or one that goes on where it was stopped, from the start where none of
    its checkpoints is whole."""
    from ..api.plan import plan_resume, plan_run
    from ..api.run import run_of

    use, folder = job.config.get("use", ()), store.folder_of(job)
    if store.begun(job):
        try:
            return run_of(plan_resume(folder, {}, use), quiet=True, illustrated=False)
        except CheckpointError:
            store.forget(job)
    own = {"lr": job.lr, "seed": job.seed, "out": str(folder)}  # what is given for all may be read by other arms alone
    return run_of(plan_run({**job.config, **own}, use), quiet=True, illustrated=False)


def outcome_of_run(job: Job, run: Run) -> Outcome:
    """What came of a run that has ended. The model is that at the end of the schedule, not the best on the way."""
    scores = {name: float(value) for name, value in run.result.last.items()}
    name = job.score or run.task.score
    outcome = outcome_of_log(replace(job, score=name), run.folder, "done", "")
    if not math.isfinite(scores.get(name, math.nan)):
        return replace(outcome, status="diverged", reason=f"{name} is not a finite number")
    module = last_model(job, run.folder)
    outcome = replace(
        outcome, score=scores[name], scores=scores, learned=learned_coefficients(module), in_parts=False,
        tokens=run.result.units, seconds=run.result.seconds,
        cpu_seconds=run.result.cpu_seconds if has_one_processor(job.config) else 0.0,
        baselines=baselines_of(run.task, name, run.result.baselines),
    )  # fmt: skip
    return with_parts(outcome, run.task, module, name) if "rows" in outcome.lacks(job) else outcome


def with_parts(outcome: Outcome, task: Task, module: nn.Module, score: str) -> Outcome:
    """An outcome with the score on parts of the validation set."""
    import torch

    from ..runs import random_state
    from ..tasks.parts import part_scores

    with random_state.preserve(), torch.no_grad():
        random_state.seed(0)
        rows, weights = part_scores(task, module, score)
    if not all(map(math.isfinite, rows)):
        rows, weights = [], []
    return replace(outcome, rows=tuple(rows), weights=tuple(weights), in_parts=True)


def last_model(job: Job, folder: Path) -> nn.Module:
    """The model with which a run ended."""
    from ..api.model import Model

    device, use = str(job.config.get("device", "cpu")), job.config.get("use", ())
    return Model.from_folder(folder / "last", device=device, use=use).module


def complete(job: Job, outcome: Outcome, store: Store) -> Outcome:
    """An outcome with what else the job asks for: scores on parts of the validation set; samples, of the same seeds for
    all models, 1, 2, ...; a look into the trained model; and its losses by window."""
    lacking = outcome.lacks(job)
    if not lacking:
        return outcome
    import torch

    from ..api.frozen import refer
    from ..api.plan import plan_resume
    from ..inspection.windows import window_losses_of
    from ..runs import random_state

    folder = store.folder_of(job)
    plan = plan_resume(folder, {}, job.config.get("use", ()))
    module, stated = last_model(job, folder), plan.kind.numbers_of(plan.architecture, plan.architecture.text.numbers)
    task = plan.kind.make(plan.data, stated, inputs=plan.architecture.inputs, batch=plan.training.batch)
    refer(task, plan.data, plan.use, plan.training.device)
    if "rows" in lacking:
        outcome = with_parts(outcome, task, module, job.score or task.score)
    with random_state.preserve(), torch.no_grad():
        if "samples" in lacking:
            texts = tuple(task.sample(module, seed) for seed in range(1, job.samples + 1))
            outcome = replace(outcome, samples=texts)
        if "inspected" in lacking:
            outcome = replace(outcome, inspected=inspect_trained(task, module, job.inspect_rows))
        if lacking & {"inspected", "windows"}:
            windows = window_losses_of(task, module, job.contexts, outcome.windows)
            outcome = replace(outcome, windows=windows)
    return store.keep(job, outcome)


def baselines_of(task: Task, score: str, known: Mapping[str, float] | None = None) -> dict[str, float]:
    """The task's baselines in a score: its main one, or bits per byte where its loss is nats per byte. `known`: in its
    main one, where a run has them already."""
    if score != task.score and (task.score, score) != ("loss", "bits_per_byte"):
        return {}
    scale = 1.0 if score == task.score else 1 / math.log(2)
    return {name: float(value) * scale for name, value in (known or task.baselines()).items()}


def outcome_of_log(job: Job, folder: Path, status: Status, reason: str) -> Outcome:
    """What the log says of a run, whatever became of it."""
    events = list(read_log(folder / "log.jsonl"))
    score = job.score or "loss"
    sampled = [event for event in events if event.get("event") == "evaluation" and event.get("sample")]
    last = next((event for event in reversed(events) if is_number(event.get("seconds"))), dict[str, Any]())
    return Outcome(
        job.variant, job.size, job.stage, job.seed, job.lr, job.key, status, None,
        curve=points(events, "step", "loss"), evaluated=points(sampled or events, "evaluation", score),
        telemetry=tuple(event for event in events if event.get("event") == "telemetry"),
        folder=str(folder), reason=reason, tokens=int(last.get("units", 0)), seconds=float(last.get("seconds", 0.0)),
        ended=time.time(),
    )  # fmt: skip


def points(events: Sequence[Mapping[str, Any]], name: str, value: str) -> tuple[tuple[int, int, float, float], ...]:
    """(step, tokens, seconds, value) of the events of one name."""
    keys = ("step", "units", "seconds", value)
    rows = [[event.get(key) for key in keys] for event in events if event.get("event") == name]
    whole = [[float(each) for each in row] for row in rows if all(map(is_number, row))]  # type: ignore[arg-type]
    return tuple((int(step), int(units), seconds, number) for step, units, seconds, number in whole)
