"""A run's beginning: what is resolved and written down before the first step, or taken up again from a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import CheckpointError, ConfigError, did_you_mean, nearest
from ..interop.folder import text_of
from ..runs import streams
from ..runs.folder import RunFolder
from . import machine
from .interrupt import Interrupts
from .loop import Trainer, flops_per_unit
from .optimiser import Optimiser, optimisers, parameters_of, width_of
from .precision import as_device, choose
from .progress import Progress
from .report import conclude
from .result import RunResult
from .schedules import schedules, with_own_schedule
from .settings import STEPS, TrainingSettings


def train(
    task: Any,
    model: nn.Module,
    settings: TrainingSettings | None = None,
    run_folder: Path | str | None = None,
    *,
    resume: bool = False,
    config: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    quiet: bool = False,
    fresh: bool = True,
) -> RunResult:
    """Train a model on a task; everything is left in the run's folder.

    model       float32 (or float64); it is changed, and holds the weights of the best evaluation afterwards
    run_folder  by default `settings.out`, else a new folder under runs/
    resume      go on with the run of that folder; `model` and `task` must be those of its configuration
    config      what else its `config.yaml` should hold, e.g. the settings of the data
    fresh       the model has its initial weights: a run that begins does what the model's `calibrate` hook asks for

    Raises CheckpointError (the folder is taken, damaged, of another model or data), NotFinite, UnknownName,
    ConfigError.
    """
    settings, said = with_own_schedule(settings or TrainingSettings(), model)
    optimiser_class, _ = optimisers.get(settings.optimiser), schedules.get(settings.lr_schedule)
    check_select(settings.select, task)
    run = RunFolder(run_folder or settings.out or _free_folder(model))
    recorded: dict[str, Any] = {}
    if resume:
        run = RunFolder.open(run.path)
        run.lock()
        recorded = run.config()
        # What was measured or derived when the run began stays as it was.
        derived = ("precision", "lr", "threads", "device")
        settings = settings.model_copy(
            update={k: recorded[k] for k in derived if k in recorded and getattr(settings, k) in (None, "auto")}
        )
    else:
        run.refuse_if_taken()
    before, threads = streams.capture(), torch.get_num_threads()
    shown = progress or Progress(task.unit, quiet=quiet)
    try:
        with shown:
            return _train(task, model, settings, optimiser_class, run, resume, dict(config or {}), shown, said, fresh)
    finally:
        run.unlock()
        streams.restore(before)
        torch.set_num_threads(threads)


def _train(
    task: Any, model: nn.Module, settings: TrainingSettings, optimiser_class: type[Optimiser], run: RunFolder,
    resume: bool, config: dict[str, Any], shown: Progress, said: str, fresh: bool,
) -> RunResult:  # fmt: skip
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = machine.pick_device(settings.device)
    if device.type == "cpu":
        machine.keep_memory()
    model.to(device)
    parameters = parameters_of(model)
    if not parameters:
        raise CheckpointError("the model has no trainable parameters, so there is nothing to train")
    first = as_device(task.batch(0, 0), device)
    units = int(task.units(first))
    precision, line = choose(settings.precision, model, task, device, first, units * flops_per_unit(model))
    width = width_of(model, parameters)
    limited = settings.steps or settings.tokens or settings.minutes or settings.epochs
    resolved = settings.model_copy(
        update={
            "precision": precision,
            "device": str(device),
            "threads": torch.get_num_threads(),
            "lr": settings.lr or float(f"{optimiser_class.default_lr(width):.3g}"),
            "steps": settings.steps if limited else STEPS,
            "out": str(run.path),
        }
    )
    shown.say(f"precision: {precision}, as the run began" if resume else line)
    shown.say(
        f"{settings.optimiser}, learning rate {resolved.lr:g}"
        + ("" if settings.lr else f" (by default at width {width})")
        + f", {settings.lr_schedule}{said}; {sum(p.tensor.numel() for p in parameters):,} parameters"
    )
    configuration = {"task": task.name, "model": text_of(model), **config, **resolved.plain()}
    about = describe_run(task, model, device)
    if resume:
        _check_same(run, about)
        run.clean()
        run.write_config({**run.config(), **configuration})
    else:
        run = _created(run, configuration, about)
    products = machine.DTYPES[precision]
    trainer = Trainer(task, model, optimiser_class(parameters, resolved, products), resolved, run, shown, device)
    try:
        if resume:
            trainer.resume()
        if fresh and trainer.saved < 0:
            trainer.calibrate(first)
        begun = trainer.position.step
        with Interrupts(lambda text: shown.say(text, warning=True)) as interrupts:
            stopped = trainer.run_until_end(interrupts)
        if resume and trainer.position.step == begun and not interrupts.asked:
            stopped = f"nothing was left to train: {stopped}"
        return conclude(trainer, stopped, interrupted=interrupts.asked, about=about)
    finally:
        trainer.run.log.close()


def check_select(select: str | None, task: Any) -> None:
    """Raise ConfigError where the best model is to be picked by a score that the task has not."""
    known = tuple(getattr(task, "measures", ("loss",)))
    if select is not None and select not in known:
        near = nearest(select, known)
        raise ConfigError(
            f"select: {select!r} is no score of {task.name};{did_you_mean(near)} known: {', '.join(known)}", near=near
        )


def describe_run(task: Any, model: nn.Module, device: torch.device) -> dict[str, Any]:
    """A run's manifest: versions, machine, what the data and the formula are."""
    try:
        version = metadata.version("transformula")
    except metadata.PackageNotFoundError:
        version = "not installed"
    text = text_of(model)
    formula = getattr(model, "formula_hash", None) or hashlib.sha256(text.encode()).hexdigest()
    return {
        "transformula": version,
        "machine": machine.describe(device),
        "formula": formula,
        "parameters": sum(p.numel() for p in model.parameters()),
        "task": json.loads(json.dumps({"name": task.name, **task.describe()}, default=str)),
    }


def _created(run: RunFolder, config: Mapping[str, Any], about: Mapping[str, Any]) -> RunFolder:
    made = RunFolder.create(run.path, config, about)
    run._lock = made._lock  # `train` lets it go
    return made


def _check_same(run: RunFolder, about: Mapping[str, Any]) -> None:
    """Raise CheckpointError where a run was made with another formula or other data."""
    stated = run.manifest()
    if stated.get("formula", about["formula"]) != about["formula"]:
        raise CheckpointError(
            f"{run.path}: this run is of another formula; a resume goes on with the same one."
            " To start from its weights with another, begin a new run"
        )
    was, now = stated.get("task", about["task"]), about["task"]
    # Data may be moved, so that its name changes; where the task states an identity, it tells of other content.
    passed_over = {"data"} if "identity" in was and "identity" in now else set()
    changed = sorted(k for k in {*was, *now} - passed_over if was.get(k) != now.get(k))
    if changed:
        said = "; ".join(f"{k} was {was.get(k)!r}, is {now.get(k)!r}" for k in changed[:4])
        raise CheckpointError(
            f"{run.path}: the data is not what it was when the run began ({said}); put it back, or begin a new run"
        )


def _free_folder(model: nn.Module) -> Path:
    """runs/NAME, or runs/NAME-2, ...: the first that is not there."""
    name = str(getattr(getattr(model, "architecture", None), "name", "") or "model").replace("/", "-").replace(" ", "-")
    number, folder = 1, Path("runs") / name
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder
