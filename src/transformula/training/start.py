"""A run's beginning: what is resolved and written down before the first step, or taken up again from a folder.

A run that is resumed goes on as it began; only its length is free.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..atomic_io import whole_folder
from ..data.sources import SOURCES
from ..errors import CheckpointError, ConfigError, InputError, TransformulaError, did_you_mean, nearest
from ..interop.exchange import text_of
from ..interop.folder import WEIGHTS
from ..interop.weights import check_finite, model_tensors, put_tensors, save_tensors
from ..model.head_in_chunks import set_chunks
from ..model.hook import hook_of
from ..model.recompute import recompute
from ..runs import identity, random_state
from ..runs.folder import CONFIG, RunFolder
from ..runs.records import RunRecords, need_recorders
from ..settings import Settings
from ..tasks.base import Batch, Task, tasks
from . import machine
from .adapters import Trainable, choose_trained
from .choices import candidates, choose_precision, choose_threads, step_like
from .failure import Interrupts, allocating, batch_in_words, explain_failure, lacks_memory
from .fit import check_parts, fit, on_a_part, parts_of
from .loop import Trainer
from .memory_notice import bound_of_step, say_memory
from .optimizer import Parameter, optimizers, parameters_of, width_of
from .parallel.layout import RankLayout, choose_layout, threads_of
from .parallel.place import job
from .parallel.world import FROM_RANKS, Ranks, here
from .progress import Progress
from .report import RunResult, conclude
from .saving import Saving
from .schedules import schedules, with_own_schedule
from .settings import CHANGEABLE, NOTED, STEPS, TrainingSettings
from .state import RunState, flops_per_unit

Follower = Callable[[Mapping[str, Any]], bool]


def train(
    task: Task, model: nn.Module, settings: TrainingSettings | None = None, run_folder: Path | str | None = None, *,
    resume: bool = False, config: Mapping[str, Any] | None = None, progress: Progress | None = None,
    quiet: bool = False, init_sha256: str | None = None, follow: Follower | None = None, illustrated: bool = True,
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
    illustrated whether the loss curve is drawn at the end, and a sample written

    Raises CheckpointError (the folder is taken, damaged, of another model or data), NotFinite, UnknownName,
    ConfigError, InputError for what `torch.compile(model)` returns.
    """
    if hasattr(model, "_orig_mod"):  # its weights have other names, by which no folder could be read
        raise InputError("torch.compile(model) wraps the model; call model.compile(), and train the model itself")
    settings, ranks = with_own(settings or TrainingSettings()), here()
    notes: list[str] = []
    run = RunFolder(run_folder or settings.out or ranks.from_first(_free_folder(model)), writes=ranks.first)
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
        with random_state.preserve(), shown:
            for note in notes:
                shown.say(note, warning=True)
            order = Order(
                task, model, settings, run, resume, config or {}, shown, origin, init_sha256, ranks, illustrated
            )
            return _train(order, follow)
    except TransformulaError as error:
        error.message = f"{ranks.label}: {error.message}" if ranks.several else error.message
        raise
    finally:
        run.unlock()
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Order:
    """What `train` was asked for, and where it is done.

    folder       the run's
    config       what else its `config.yaml` holds
    origin       whose learning rate schedule it is, in words
    init_sha256  of the weights that the model has from elsewhere; None: it has its initial ones
    illustrated  whether the loss curve is drawn at the end, and a sample written
    """

    task: Task
    model: nn.Module
    settings: TrainingSettings
    folder: RunFolder
    resume: bool
    config: Mapping[str, Any]
    shown: Progress
    origin: str
    init_sha256: str | None
    ranks: Ranks
    illustrated: bool


@dataclass(frozen=True)
class Choices:
    """What is settled before a run has a folder.

    settings    with what was left open in those that were asked for
    parameters  that asked for a gradient, and do so again when the run has ended; trained: those that are trained
    batch       the first one
    layout      how ranks share the model
    threads     numbers of them that may be tried while the run goes on
    """

    settings: TrainingSettings
    device: torch.device
    parameters: Sequence[Parameter]
    trained: Trainable
    batch: Batch
    layout: RankLayout
    threads: Sequence[int]


def _train(order: Order, follow: Follower | None) -> RunResult:
    choices = _choose(order)
    about = _take_folder(order, choices)
    state = _state(order, choices)
    trainer, folder = Trainer(state, choices.threads), state.folder
    random_state.seed(state.settings.seed)
    records = RunRecords(folder, state.settings.log_to, state.shown.say)  # of what is logged before a resume rewinds it
    try:
        if order.resume:
            trainer.saving.resume(order.init_sha256)
        if order.settings.fit:
            fit(state, trainer.telemetry)
        if state.saved < 0:
            begin(state, trainer.saving, choices.batch, fresh=order.init_sha256 is None)
        recording = records.recording(state.position.step, folder.config(), about, order.task.unit)
        with recording if order.ranks.first else nullcontext():
            return _to_its_end(trainer, order, about, follow)
    finally:
        folder.log.close()
        state.weights.adapters.release()
        for parameter in choices.parameters:
            parameter.tensor.requires_grad_()


def _choose(order: Order) -> Choices:
    """Settle what is left open, and say it. Raises ConfigError for what does not go together, CheckpointError where
    there is nothing to train, RunError where the first batch has no room."""
    task, model, settings, ranks, say = order.task, order.model, order.settings, order.ranks, order.shown.say
    counts = candidates()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = machine.pick_device(ranks.device(settings.device))
    model.to(device)
    recompute(model, settings.recompute)
    check_chunks(settings, task, order.resume)
    check_taught(settings, task)
    set_chunks(model, settings.loss_chunks)
    parameters = parameters_of(model)
    if not parameters:
        raise CheckpointError("the model has no trainable parameters, so there is nothing to train")
    if order.init_sha256 is not None:
        check_finite(model.named_parameters(), "the weights to begin with")
    trained = choose_trained(model, settings)
    layout, why = choose_layout(settings, ranks, model, trained, device)
    ranks.arrange(layout.tensor)
    batch = task.batch(0, 0).to(device)
    if device.type == "cpu":
        machine.keep_memory(bound_of_step(model, parts_of(batch, settings.micro_batches * ranks.size)[0], settings))
    with allocating(lambda amount: f"the first step: {lacks_memory(amount, task, batch_in_words(batch, task))}"):
        check_parts(settings, task, model, batch, ranks)
        precision, line, threads, more = ranks.by_first(
            lambda: on_a_part(settings, batch, partial(_measured, order, device), ranks)
        )
    optimizer, width = optimizers.get(settings.optimizer), width_of(model, parameters)
    resolved = settings.model_copy(
        update={
            "precision": precision,
            "device": settings.device if ranks.several else str(device),
            "threads": threads,
            "lr": settings.lr or float(f"{optimizer.default_lr(width):.3g}"),
            "steps": settings.steps if settings.length else STEPS,
            "out": str(order.folder.path),
            "fit": False,
        }
    )
    torch.set_num_threads(threads)
    for text in filter(None, (line, more, why)):
        say(text)
    say(
        f"{settings.optimizer}, learning rate {resolved.lr:g}"
        + ("" if settings.lr else f" (by default at width {width})")
        + f", {settings.lr_schedule}{order.origin}; {trained.line}"
    )
    if settings.minutes and order.init_sha256 is None and not order.resume:
        from .size_notice import line_of_size

        if small := line_of_size(task, model, resolved, device):
            say(small)
    part = parts_of(batch, resolved.micro_batches * ranks.data_size)[0]
    say_memory(say, task, model, resolved, part, ranks.size if layout.divided else 1)
    by_clock = resolved.minutes and not (resolved.steps or resolved.epochs or resolved.tokens)
    open_ = by_clock and not settings.threads and device.type == "cpu" and not ranks.several
    return Choices(resolved, device, parameters, trained, batch, layout, counts if open_ else ())


def _measured(order: Order, device: torch.device, part: Batch) -> tuple[str, str, int, str]:
    """Precision and number of threads for a part of a batch, each with a line that says why."""
    task, model, settings = order.task, order.model, order.settings
    flops = task.units(part) * flops_per_unit(model)
    resumed = order.folder.path if order.resume else None
    precision, line = choose_precision(settings.precision, model, task, device, part, flops, resumed)
    step = partial(step_like, model, task, device, part, flops, precision)
    asked = settings.threads or (threads_of(order.ranks) if order.ranks.several else None)
    return precision, line, *choose_threads(asked, device, step)


def _take_folder(order: Order, choices: Choices) -> dict[str, Any]:
    """Write down what the run is, or hold a run that goes on to what it was; returns its manifest."""
    task, model, folder, config = order.task, order.model, order.folder, order.config
    # Until what `fit` finds is written down, a run that is killed has to look for it again.
    settings = {**choices.settings.plain(), "fit": order.settings.fit}
    configuration = {"task": task.name, "model": text_of(model), **config, **settings}
    about = {
        **describe_run(task, model, choices.device),
        **identity.describe_code(config.get("use", ())),
        "length": choices.settings.length,
        **({} if order.init_sha256 is None else {"init_sha256": order.init_sha256}),
        **describe_ranks(order.ranks, str(choices.layout)),
    }
    if order.resume:
        check_same(folder, about)
        kind = getattr(task, "settings", Settings)  # what a caller of `fit` made may have none
        check_data(kind.of_run(folder.config()), config, folder.path)
        folder.clean()
        folder.write_config({**folder.config(), **configuration})
    else:
        order.ranks.by_first(lambda: folder.create(configuration, about) and None)
    return about


def _state(order: Order, choices: Choices) -> RunState:
    """The run at its beginning; divides the model among ranks, where they share it."""
    settings, trained, device = choices.settings, choices.trained, choices.device
    dtype, sharded = machine.DTYPES[settings.precision], None
    if choices.layout.divided:
        from .parallel.sharded import ShardedModel

        sharded = ShardedModel(order.model, order.ranks, choices.layout, settings.precision, device)
        trained = sharded.parameters_of(trained)
    optimizer = optimizers.get(settings.optimizer)(trained.parameters, settings, dtype)
    return RunState(
        order.task, order.model, optimizer, settings, order.folder, order.shown, device, trained, order.ranks, sharded
    )


def begin(state: RunState, saving: Saving, batch: Batch, fresh: bool) -> None:
    """What comes before the first step. Writes the tensors that keep their values, which no checkpoint holds.

    fresh  whether the weights are initial ones: then the model's `calibrate` hook is asked
    """
    if fresh:
        calibrate(state, batch)
    fixed = saving.fixed_tensors()
    if state.fixed and state.ranks.first:
        with whole_folder(state.folder.fixed) as folder:
            save_tensors(folder / WEIGHTS, fixed)


def calibrate(state: RunState, batch: Batch) -> None:
    """Do what the model's `calibrate` hook asks for, over the first batch, and say what was done."""
    hook = hook_of(getattr(state.weights.master, "architecture", None), "calibrate")
    if hook is None:
        return
    master = state.weights.whole().master if state.sharded else state.weights.master
    with random_state.preserve():
        state.seed_generators(0)
        state.shown.say(str(hook(master.train(), lambda: state.task.loss(master, batch))))
    if state.sharded:
        put_tensors(state.weights.master, model_tensors(master), FROM_RANKS)


def _to_its_end(trainer: Trainer, order: Order, about: Mapping[str, Any], follow: Follower | None) -> RunResult:
    state, saving = trainer.state, trainer.saving
    begun = state.position.step
    with trainer.watchdog, Interrupts(lambda text: state.shown.say(text, warning=True)) as interrupts:
        if follow is not None:

            def hear(event: Mapping[str, Any]) -> None:
                interrupts.asked = follow(event) or interrupts.asked

            state.folder.log.listeners.append(hear)
        try:
            stopped = trainer.run_until_end(interrupts)
        except Exception as error:
            ended = explain_failure(state, saving, error)
            raise ended from (None if ended is error else error)
        if interrupts.asked:  # SIGTERM after SIGUSR1 does not stop what is written now
            return conclude(state, saving, stopped, about, interrupts)
    if order.resume and state.position.step == begun:
        stopped = f"nothing was left to train: {stopped}"
    return conclude(state, saving, stopped, about, illustrated=order.illustrated)


def with_own(settings: TrainingSettings, recorded: Any = None) -> TrainingSettings:
    """Settings with the options and the defaults that their optimizer brings, or the one that a run recorded. Raises
    UnknownName."""
    kind = optimizers.get(str(recorded or settings.optimizer)).settings
    stated = {key: getattr(settings, key) for key in settings.model_fields_set}
    return settings if isinstance(settings, kind) else kind.model_validate(stated)


def describe_ranks(ranks: Ranks, layout: str) -> dict[str, Any]:
    """What a manifest says of several processes that train together; {} of one alone."""
    return {"ranks": ranks.size, "parallel": layout, "job": job(os.environ)[0]} if ranks.several else {}


def check_select(select: str | None, task: Task | type[Task]) -> None:
    """Raise ConfigError where the best model is to be picked by a score that the task has not."""
    if select is not None and select not in task.measures:
        near = nearest(select, task.measures)
        known = f"{did_you_mean(near)} known: {', '.join(task.measures)}"
        raise ConfigError(f"select: {select!r} is no score of {task.name};{known}", near=near)


def check_chunks(settings: TrainingSettings, task: Task, resume: bool = False) -> None:
    """Raise ConfigError where logits are to be made in chunks and the task makes its loss otherwise. A run that began
    so goes on: it had no effect."""
    if settings.loss_chunks > 1 and not task.chunks and not resume:
        known = ", ".join(name for name in tasks.names() if tasks.get(name).chunks)
        what = f"{task.name} needs its logits as a whole; leave it out, and cut batches into --micro-batches"
        raise ConfigError(f"loss_chunks: {what} (tasks with it: {known})")


def check_taught(settings: TrainingSettings, task: Task) -> None:
    """Raise ConfigError for settings that name a teacher, beside a task that asks none."""
    if settings.teacher is not None and "teacher" not in task.beside:
        what = f"the task {task.name} was made without it; transformula.train(..., teacher=FOLDER) makes one that asks"
        raise ConfigError(f"teacher: {what}")


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
        **task.beside,
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
    settings = with_own(settings, recorded.get("optimizer"))
    kept = {key: value for key, value in recorded.items() if key in type(settings).model_fields and key != "out"}
    began = type(settings).read(kept, source=str(run.path / CONFIG))
    stated = {key for key in settings.model_fields_set if getattr(settings, key) not in (None, "auto")}
    pairs = {key: (getattr(began, key), getattr(settings, key)) for key in stated & set(kept)}
    changed = {key: (was, now) for key, (was, now) in pairs.items() if was != now}
    refuse_changes({key: pair for key, pair in changed.items() if key not in CHANGEABLE}, run.path)
    what = "from here on it is no longer bit for bit the run that was not interrupted"
    machines = {key: changed[key] for key in NOTED if key in changed}
    notes = [f"{key}: {now}, and the run began with {was}: {what}" for key, (was, now) in machines.items()]
    return settings.model_copy(update={key: getattr(began, key) for key in kept if key not in stated}), notes


def check_data(recorded: Mapping[str, Any], config: Mapping[str, Any], folder: Path) -> None:
    """Raise ConfigError where settings of the data are not those that the run recorded."""
    now = json.loads(json.dumps(dict(config), default=str))
    # Files may have been moved: what they hold is compared by `check_same`.
    both = [key for key in now if key in recorded and key not in (*CHANGEABLE, *SOURCES, "tokenizer")]
    refuse_changes({key: (recorded[key], now[key]) for key in both if recorded[key] != now[key]}, folder)


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


def check_same_teacher(run: RunFolder, was: Any, now: Any) -> None:
    """Raise CheckpointError where what a run learns from, as its manifest says it, is another model now."""

    def known(one: Any) -> str:
        """The hashes of weights and formula, in a few digits."""
        parts = [str(one.get(key, ""))[:12] for key in ("sha256", "formula")] if isinstance(one, dict) else ["none"]
        return " ".join(filter(None, parts))

    before, after = known(was), known(now)
    if before != after:
        what = f"the teacher is not what it was when the run began (hash {before}; now hash {after})"
        raise CheckpointError(f"{run.path}: {what}; put it back, or begin a new run")


def check_same(run: RunFolder, about: Mapping[str, Any]) -> None:
    """Raise CheckpointError where a run was made with another formula or other data."""
    stated = run.manifest()
    if stated.get("formula", about["formula"]) != about["formula"]:
        what = "this run is of another formula; a resume goes on with the same one"
        raise CheckpointError(f"{run.path}: {what}. To start from its weights with another, begin a new run")
    check_same_teacher(run, stated.get("teacher"), about.get("teacher"))
    was, now = stated.get("task", about["task"]), about["task"]
    if not isinstance(was, dict):
        raise CheckpointError(f"{run.path / 'manifest.json'}: damaged: `task` should be keys and values")
    was = {**was, **{key: tasks.name_of(was[key]) for key in ("name", "task") if was.get(key) in tasks}}
    # Data may be moved, or named by another path; where the task states an identity, it tells of other content.
    passed_over = {"data", "split"} if "identity" in was and "identity" in now else set()
    changed = sorted(k for k in {*was, *now} - passed_over if was.get(k) != now.get(k))
    if changed:
        differences = "; ".join(f"{k} was {was.get(k)!r:.200}, is {now.get(k)!r:.200}" for k in changed[:4])
        what = f"the data is not what it was when the run began ({differences})"
        raise CheckpointError(f"{run.path}: {what}; put it back, or begin a new run")
