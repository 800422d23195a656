"""What a run of a configuration costs: parameters, FLOPs and memory by the accounting, the time of a step by a short
trial."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from ..analysis.accounting import flops_per_unit, numbers_by_role, summary, usual_length
from ..api.frozen import refer
from ..api.plan import Plan as RunPlan
from ..api.plan import plan_run
from ..api.reading import check_model, read_model
from ..api.run import of_data
from ..api.teaching import teacher_of, with_teacher
from ..cost.memory import FLOAT, of_parameters
from ..cost.ratio import Ratio, ratio_of_times
from ..language.graph import Architecture
from ..language.model_text import ModelText
from ..language.model_writing import write_text
from ..model import build
from ..plain import plain
from ..runs import random_state
from ..tasks.base import Task, check_widths
from ..training.choices import choose_precision
from ..training.machine import pick_device
from ..training.optimizers import keeps_of
from ..training.trial import times_of_steps, trial_step
from .records import RunCosts

if TYPE_CHECKING:
    from ..settings import Settings

PROBE_ROUNDS, PROBE_SECONDS = 60, 3.0  # of the trial of an arm, which ends with whichever comes first
PROCESS_BYTES = 500 * 2**20  # of a process that trains: Python and the libraries
LATER = ("lr", "seed", "out")  # keys of a run that its arm does not say
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Prepared:
    """A run's configuration with its data, and its model checked against these.

    numbers  those of the model that are the data's (vocab, ...)
    """

    plan: RunPlan
    task: Task
    architecture: Architecture
    numbers: Mapping[str, int]

    def resized(self, changes: Mapping[str, Any]) -> Architecture:
        """The model with other numbers, such as its width. Raises FormulaError where the text cannot have them."""
        return check_model(self.plan.architecture.text.override(changes), self.numbers, self.plan.use)


def prepare(config: Config) -> Prepared:
    """Read a configuration's data and check its model. Raises what `train` raises before its first step."""
    said = {key: value for key, value in config.items() if key not in (*LATER, "steps")}
    return _prepare(json.dumps(plain(said), sort_keys=True), os.getcwd())


def forget() -> None:
    """Read data again from now on: its files may have changed."""
    _prepare.cache_clear()
    _task.cache_clear()


@lru_cache(maxsize=256)
def _prepare(said: str, _: str) -> Prepared:
    config = json.loads(said)
    use = tuple(config.get("use") or ())
    threads = torch.get_num_threads()
    try:
        plan = plan_run(config, use).checked()
    finally:
        torch.set_num_threads(threads)
    stated, training = plan.kind.numbers_of(plan.architecture, plan.architecture.text.numbers), plan.training
    more = {"inputs": list(plan.architecture.inputs), "batch": training.batch, "accumulate": training.accumulate}
    said = json.dumps([plan.data.plain(), dict(stated), {**more, "seed": training.seed}])
    task = _task(plan.kind, type(plan.data), said)
    refer(task, plan.data, use, training.device)
    numbers = of_data(task, plan.architecture)
    architecture = check_model(plan.architecture.text, numbers, use)
    plan.kind.check(architecture)
    check_widths(task, architecture)
    return Prepared(plan, task, architecture, numbers)


@lru_cache(maxsize=8)
def _task(kind: type[Task], settings: type[Settings], said: str) -> Task:
    """A task with its data, which arms of the same data share."""
    data, stated, more = json.loads(said)
    return kind.make(settings.read(data), stated, **more)


def model_text(config: Config) -> ModelText:
    """The text of a configuration's model."""
    return read_model(str(config["model"]))


def with_numbers(config: Config, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose model has other numbers."""
    return {**config, "model": write_text(model_text(config).override(changes))}


def units_per_step(prepared: Prepared) -> int:
    """What a step sees, in the task's units (tokens), as the mean of a few batches."""
    batches = [prepared.task.batch(step, 0) for step in range(4 if prepared.task.memory is Task.memory else 2)]
    mean = statistics.mean(prepared.task.units(batch) for batch in batches)
    return max(1, round(mean * prepared.plan.training.accumulate))


def costs_of(
    prepared: Prepared, steps: int, step_seconds: float | None = None, time_ratio: Sequence[float] = ()
) -> RunCosts:
    """The costs of one run of so many steps."""
    batch, architecture = prepared.task.batch(0, 0), prepared.architecture
    shape = next(iter(batch.inputs.values())).shape
    length = int(shape[1]) if len(shape) == 2 else usual_length(architecture)
    totals = summary(architecture, length=length, batch=int(shape[0])).totals
    training, logits = prepared.plan.training, shape[0] * length * int(architecture.numbers.get("vocab", 1))
    belongs = of_parameters(numbers_by_role(architecture), keeps_of(training.optimizer), training.average > 0)
    teacher = teacher_of(training, prepared.plan.use)
    asked = 0.0 if teacher is None else flops_per_unit(teacher) / 3  # forward alone
    taught = 0 if teacher is None else FLOAT * (summary(teacher).totals.parameters + logits)
    held = replace(belongs, activations=int(totals.activation_bytes), loss=2 * FLOAT * logits)  # with their gradients
    return RunCosts(
        parameters=totals.parameters,
        parameters_without_embeddings=totals.parameters - totals.embeddings,
        flops_per_token=flops_per_unit(architecture) + asked,
        activation_bytes=float(totals.activation_bytes),
        memory_bytes=float(PROCESS_BYTES + held.total + taught),
        tokens=steps * units_per_step(prepared),
        steps=steps,
        step_seconds=step_seconds,
        time_ratio=time_ratio,
    )


def with_steps(costs: RunCosts, steps: int) -> RunCosts:
    """The costs of a run of another length."""
    return replace(costs, steps=steps, tokens=round(costs.tokens / costs.steps * steps))


def evaluation_steps(prepared: Prepared) -> float:
    """What an evaluation on the whole validation set costs, in steps of training."""
    return prepared.task.evaluation_cost() / units_per_step(prepared)


def step_seconds(
    prepared: Sequence[Prepared], rounds: int = PROBE_ROUNDS, most: float = PROBE_SECONDS
) -> list[tuple[float, Ratio]]:
    """Seconds of a step of each, and their ratio to those of the first, by a trial in which they take turns. Where the
    ratio may be noise, the seconds are the first's. One thread, where no other number is stated."""
    threads, makers = torch.get_num_threads(), []
    with random_state.preserve():
        try:
            for one in prepared:
                torch.set_num_threads(one.plan.training.threads or 1)
                task = with_teacher(one.task, one.plan.training, one.architecture, one.plan.use)
                makers.append(trial_step(task, one.architecture, one.plan.training))
            times = times_of_steps(makers, rounds, most)
        finally:
            torch.set_num_threads(threads)
    base = statistics.median(seconds for seconds, _ in times[0])
    if not all(has_one_processor(one.plan.training.plain()) for one in prepared):
        times = [[(seconds, 0.0) for seconds, _ in each] for each in times]
    return [(base * ratio.factor, ratio) for ratio in (ratio_of_times(each, times[0]) for each in times)]


def faster_precision(prepared: Prepared, asked: str) -> tuple[str, str]:
    """The precision that is asked for, or for "auto" that which `train` would choose on one thread, and one line that
    says why."""
    training, threads = prepared.plan.training, torch.get_num_threads()
    device = pick_device(training.device)
    with random_state.preserve():
        try:
            torch.set_num_threads(training.threads or 1)
            model, batch = build(prepared.architecture, seed=training.seed).to(device), prepared.task.batch(0, 0)
            flops = prepared.task.units(batch) * flops_per_unit(prepared.architecture)
            return choose_precision(asked, model, prepared.task, device, batch.to(device), flops)
        finally:
            torch.set_num_threads(threads)


def has_one_processor(config: Config) -> bool:
    """Whether a run's time is that of one thread of a CPU: then the system measures it apart from all else."""
    return config.get("device") == "cpu" and config.get("threads") == 1


def data_score(task: Task, score: str | None) -> str:
    """The score that is compared: the one that was named; of texts bits per byte, which tokenizers do not change; else
    the task's main one. Raises ConfigError for one that the task has not."""
    from ..training.start import check_select

    check_select(score, task)
    return score or ("bits_per_byte" if "bits_per_byte" in task.measures else task.score)
