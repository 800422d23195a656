"""A run's beginning: what is resolved and written down before the first step, or taken up again from a folder.

A run that is resumed goes on as it began; only its length is free.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data.sources import SOURCES
from ..errors import CheckpointError, ConfigError, InputError, TransformulaError, did_you_mean, nearest
from ..interop.exchange import text_of
from ..interop.weights import check_finite
from ..model.head_in_chunks import set_chunks
from ..model.recompute import recompute
from ..runs import identity, random_state
from ..runs.folder import CONFIG, RunFolder
from ..runs.records import RunRecords, need_recorders
from ..tasks.base import Batch, Task, tasks
from . import machine
from .adapters import choose_trained
from .choices import choose_precision, choose_threads, step_like
from .failure import Interrupts, allocating, batch_in_words, failed, lacks_memory
from .fit import check_parts, fit, on_a_part, parts_of
from .loop import Trainer, flops_per_unit
from .memory import roughly, say_memory
from .optimizer import optimizers, parameters_of, width_of
from .parallel.layout import choose_layout, threads_of
from .parallel.place import job
from .parallel.sharded import ShardedModel
from .parallel.world import Ranks, here
from .progress import Progress
from .report import RunResult, conclude
from .schedules import schedules, with_own_schedule
from .settings import STEPS, TrainingSettings

Follower = Callable[[Mapping[str, Any]], bool]

MACHINE = ("device", "threads", "micro_batches", "parallel")
LENGTH = ("steps", "tokens", "minutes", "epochs", "patience")
EVERY = ("evaluate_every", "checkpoint_every", "keep", "log_every", "log_to", "telemetry_every")
FAULTS = ("recompute", "on_save_error", "on_not_finite", "on_spike", "spike", "fit", "hang_timeout")
FREE = (*LENGTH, *EVERY, *MACHINE, *FAULTS, "out")  # what a resume may change


def train(
    task: Task, model: nn.Module, settings: TrainingSettings | None = None, run_folder: Path | str | None = None, *,
    resume: bool = False, config: Mapping[str, Any] | None = None, progress: Progress | None = None,
    quiet: bool = False, init_sha256: str | None = None, follow: Follower | None = None,
) -> RunResult:  # fmt: skip
    """Train a model on a task; everything is left in the run's folder.

    model       float32 (or float64); it is changed, and holds the weights of the best evaluation afterwards. Compiled
                by `model.compile()` it runs compiled, and so does its working copy in bf16
                (of a model that ranks divide, `RunResult.model` holds them; this one stays divided)
    run_folder  by default `settings.out`, else a new folder under runs/
    resume      go on with the run of that folder; `model` and `task` must be those of its configuration
    config      what else its `config.yaml` should hold, e.g. the settings of the data
    init_sha256 of the weights that the model has from elsewhere; None: it has its initial ones, and a run that begins
                does what the model's `calibrate` hook asks for
    follow      called with each event of the log; the run is asked to end, as by Ctrl-C, once it says True

    Raises CheckpointError (the folder is taken, damaged, of another model or data), NotFinite, UnknownName,
    ConfigError, InputError for what `torch.compile(model)` returns.
    """
    if hasattr(model, "_orig_mod"):  # its weights have other names, by which no folder could be read
        raise InputError("torch.compile(model) wraps the model; call model.compile(), and train the model itself")
    settings, ranks = settings or TrainingSettings(), here()
    notes: list[str] = []
    run = RunFolder(run_folder or settings.out or ranks.told(_free_folder(model)), writes=ranks.first)
    if resume:
        run = RunFolder.open(run.path, writes=ranks.first)
        check_folder(run.path, settings.out)
        settings, notes = settings_of_resume(settings, run)
    settings, origin = with_own_schedule(settings, model)
    optimizers.get(settings.optimizer)
    schedules.get(settings.lr_schedule)
    check_select(settings.select, task)
    need_recorders(settings.log_to)
    ranks.by_first(run.lock if resume else run.refuse_if_taken)
    threads, shown = torch.get_num_threads(), progress or Progress(task.unit, quiet=quiet)
    shown.silent = not ranks.first
    try:
        with random_state.kept(), shown:
            for note in notes:
                shown.say(note, warning=True)
            return _train(task, model, settings, run, resume, dict(config or {}), shown, origin, init_sha256, follow)
    except TransformulaError as error:
        error.message = f"{ranks.named}: {error.message}" if ranks.several else error.message
        raise
    finally:
        run.unlock()
        torch.set_num_threads(threads)


def _train(
    task: Task, model: nn.Module, settings: TrainingSettings, run: RunFolder, resume: bool, config: dict[str, Any],
    shown: Progress, origin: str, init_sha256: str | None, follow: Follower | None,
) -> RunResult:  # fmt: skip
    ranks = here()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = machine.pick_device(ranks.device(settings.device))
    model.to(device)
    recompute(model, settings.recompute)
    check_chunks(settings, task)
    set_chunks(model, settings.loss_chunks)
    parameters = parameters_of(model)
    if not parameters:
        raise CheckpointError("the model has no trainable parameters, so there is nothing to train")
    if init_sha256 is not None:
        check_finite(model.named_parameters(), "the weights to begin with")
    trained = choose_trained(model, settings)
    layout, why = choose_layout(settings, ranks, model, trained, device)
    ranks.arrange(layout.tensor)
    first = task.batch(0, 0).to(device)
    if device.type == "cpu":
        machine.keep_memory(roughly(model, parts_of(first, settings.micro_batches * ranks.size)[0]))

    def chosen(part: Batch) -> tuple[str, str, int, str]:
        flops = task.units(part) * flops_per_unit(model)
        going_on = run.path if resume else None
        precision, line = choose_precision(settings.precision, model, task, device, part, flops, going_on)
        step = partial(step_like, model, task, device, part, flops, precision)
        asked = settings.threads or (threads_of(ranks) if ranks.several else None)
        return precision, line, *choose_threads(asked, device, step)

    with allocating(lambda amount: f"the first step: {lacks_memory(amount, task, batch_in_words(first, task))}"):
        check_parts(settings, task, model, first, ranks)
        precision, line, threads, more = ranks.by_first(lambda: on_a_part(settings, first, chosen, ranks))
    optimizer, width = optimizers.get(settings.optimizer), width_of(model, parameters)
    limited = settings.steps or settings.tokens or settings.minutes or settings.epochs
    resolved = settings.model_copy(
        update={
            "precision": precision,
            "device": settings.device if ranks.several else str(device),
            "threads": threads,
            "lr": settings.lr or float(f"{optimizer.default_lr(width):.3g}"),
            "steps": settings.steps if limited else STEPS,
            "out": str(run.path),
            "fit": False,
        }
    )
    torch.set_num_threads(threads)
    for text in filter(None, (line, more, why)):
        shown.say(text)
    shown.say(
        f"{settings.optimizer}, learning rate {resolved.lr:g}"
        + ("" if settings.lr else f" (by default at width {width})")
        + f", {settings.lr_schedule}{origin}; {trained.line}"
    )
    part = parts_of(first, resolved.micro_batches * ranks.data_size)[0]
    say_memory(shown.say, task, model, resolved, part, ranks.size if layout.divided else 1)
    # Until what `fit` finds is written down, a run that is killed has to look for it again.
    configuration = {"task": task.name, "model": text_of(model), **config, **resolved.plain(), "fit": settings.fit}
    about = {
        **describe_run(task, model, device),
        **identity.described(config.get("use", ())),
        "length": resolved.length,
        **({} if init_sha256 is None else {"init_sha256": init_sha256}),
        **told_of(ranks, str(layout)),
    }
    if resume:
        check_same(run, about)
        check_data(config, run)
        run.clean()
        run.write_config({**run.config(), **configuration})
    else:
        ranks.by_first(lambda: run.create(configuration, about) and None)
    sharded = ShardedModel(model, ranks, layout, precision, device) if layout.divided else None
    trained = trained if sharded is None else sharded.parameters_of(trained)
    kept_by = optimizer(trained.parameters, resolved, machine.DTYPES[precision])
    trainer = Trainer(task, model, kept_by, resolved, run, shown, device, trained, ranks, sharded)
    random_state.seed(settings.seed)
    records = RunRecords(run, resolved.log_to, shown.say)  # of what was logged before a resume rewinds it
    try:
        if resume:
            trainer.saving.resume(init_sha256)
        if settings.fit:
            fit(trainer)
        if trainer.saved < 0:
            trainer.begin(first, fresh=init_sha256 is None)
        kept = records.kept(trainer.position.step, run.config(), about, task.unit)
        with kept if ranks.first else nullcontext():
            return _to_its_end(trainer, resume, about, follow)
    finally:
        run.log.close()
        trainer.weights.adapters.release()
        for parameter in parameters:
            parameter.tensor.requires_grad_()


def _to_its_end(trainer: Trainer, resume: bool, about: Mapping[str, Any], follow: Follower | None) -> RunResult:
    begun = trainer.position.step
    with trainer.watchdog, Interrupts(lambda text: trainer.shown.say(text, warning=True)) as interrupts:
        if follow is not None:

            def hear(event: Mapping[str, Any]) -> None:
                interrupts.asked = follow(event) or interrupts.asked

            trainer.run.log.listeners.append(hear)
        try:
            stopped = trainer.run_until_end(interrupts)
        except Exception as error:
            ended = failed(trainer, error)
            raise ended from (None if ended is error else error)
        if interrupts.asked:  # SIGTERM after SIGUSR1 does not stop what is written now
            return conclude(trainer, stopped, about, interrupts)
    if resume and trainer.position.step == begun:
        stopped = f"nothing was left to train: {stopped}"
    return conclude(trainer, stopped, about)


def told_of(ranks: Ranks, layout: str) -> dict[str, Any]:
    """What a manifest says of several processes that train together; {} of one alone."""
    return {"ranks": ranks.size, "parallel": layout, "job": job(os.environ)[0]} if ranks.several else {}


def check_select(select: str | None, task: Task | type[Task]) -> None:
    """Raise ConfigError where the best model is to be picked by a score that the task has not."""
    if select is not None and select not in task.measures:
        near = nearest(select, task.measures)
        known = f"{did_you_mean(near)} known: {', '.join(task.measures)}"
        raise ConfigError(f"select: {select!r} is no score of {task.name};{known}", near=near)


def check_chunks(settings: TrainingSettings, task: Task) -> None:
    """Raise ConfigError where logits are to be made in chunks and the task makes its loss otherwise."""
    if settings.loss_chunks > 1 and not task.chunks:
        known = ", ".join(name for name in tasks.names() if tasks.get(name).chunks)
        what = f"{task.name} needs its logits as a whole; leave it out, and cut batches into --micro-batches"
        raise ConfigError(f"loss_chunks: {what} (tasks with it: {known})")


def describe_run(task: Task, model: nn.Module, device: torch.device) -> dict[str, Any]:
    """A run's manifest: versions, machine, what the data and the formula are."""
    try:
        version = metadata.version("transformula")
    except metadata.PackageNotFoundError:
        version = "not installed"
    formula = getattr(model, "formula_hash", None) or hashlib.sha256(text_of(model).encode()).hexdigest()
    return {
        "transformula": version,
        "machine": machine.describe(device),
        "formula": formula,
        "parameters": sum(p.numel() for p in model.parameters()),
        "task": json.loads(json.dumps({"name": task.name, **task.describe()}, default=str)),
    }


def _free_folder(model: nn.Module) -> Path:
    name = str(getattr(getattr(model, "architecture", None), "name", "") or "model").replace("/", "-").replace(" ", "-")
    folders = (Path("runs") / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(folder for folder in folders if not folder.exists())


def settings_of_resume(settings: TrainingSettings, run: RunFolder) -> tuple[TrainingSettings, list[str]]:
    """The settings with which a run goes on, and what is to be said of them.

    What `settings` do not state is as the run recorded it. Raises ConfigError where they state something else that
    makes another run of it.
    """
    recorded = run.config()
    kept = {key: value for key, value in recorded.items() if key in TrainingSettings.model_fields and key != "out"}
    began = TrainingSettings.read(kept, source=str(run.path / CONFIG))
    stated = {key for key in settings.model_fields_set if getattr(settings, key) not in (None, "auto")}
    pairs = {key: (getattr(began, key), getattr(settings, key)) for key in stated & set(kept)}
    changed = {key: (was, now) for key, (was, now) in pairs.items() if was != now}
    refuse_changes({key: pair for key, pair in changed.items() if key not in FREE}, run.path)
    what = "from here on it is no longer bit for bit the run that was not interrupted"
    machines = {key: changed[key] for key in MACHINE if key in changed}
    notes = [f"{key}: {now}, and the run began with {was}: {what}" for key, (was, now) in machines.items()]
    return settings.model_copy(update={key: getattr(began, key) for key in kept if key not in stated}), notes


def check_data(config: Mapping[str, Any], run: RunFolder) -> None:
    """Raise ConfigError where settings of the data are not those that the run recorded."""
    recorded, now = run.config(), json.loads(json.dumps(dict(config), default=str))
    # Files may have been moved: what they hold is compared by `check_same`.
    both = [key for key in now if key in recorded and key not in (*FREE, *SOURCES, "tokenizer")]
    refuse_changes({key: (recorded[key], now[key]) for key in both if recorded[key] != now[key]}, run.path)


def refuse_changes(changed: Mapping[str, tuple[Any, Any]], folder: Path) -> None:
    """Raise ConfigError for settings, each with its value as the run began and as it is asked for now."""
    values = sorted(changed.items())
    mistakes = [f"{key}: {now!r:.200}, and the run began with {was!r:.200}" for key, (was, now) in values]
    if mistakes:
        mistakes[-1] += (
            ". A resume continues as the run began; only limits and how often it evaluates, logs, saves and keeps may"
            f" change. Leave it out, or begin a new run with this one's weights: --init-from {folder} --out OTHER"
        )
        raise ConfigError(mistakes, source=str(folder))


def check_folder(folder: Path, out: Any) -> None:
    """Raise CheckpointError where a resume names another folder for the run."""
    if out is not None and Path(str(out)).resolve() != folder.resolve():
        remedy = "leave --out out, or copy the folder first and resume the copy"
        raise CheckpointError(f"--out {out}: a resume stays in its folder, {folder}; {remedy}")


def check_same(run: RunFolder, about: Mapping[str, Any]) -> None:
    """Raise CheckpointError where a run was made with another formula or other data."""
    stated = run.manifest()
    if stated.get("formula", about["formula"]) != about["formula"]:
        what = "this run is of another formula; a resume goes on with the same one"
        raise CheckpointError(f"{run.path}: {what}. To start from its weights with another, begin a new run")
    was, now = stated.get("task", about["task"]), about["task"]
    if not isinstance(was, dict):
        raise CheckpointError(f"{run.path / 'manifest.json'}: damaged: `task` should be keys and values")
    was = {**was, **{key: tasks.name_of(was[key]) for key in ("name", "task") if was.get(key) in tasks}}
    # Data may be moved, so that its name changes; where the task states an identity, it tells of other content.
    passed_over = {"data"} if "identity" in was and "identity" in now else set()
    changed = sorted(k for k in {*was, *now} - passed_over if was.get(k) != now.get(k))
    if changed:
        differences = "; ".join(f"{k} was {was.get(k)!r:.200}, is {now.get(k)!r:.200}" for k in changed[:4])
        what = f"the data is not what it was when the run began ({differences})"
        raise CheckpointError(f"{run.path}: {what}; put it back, or begin a new run")
