"""The loop: batches, losses, gradients, updates, evaluations, checkpoints. It knows no task by name.

A run is a pure function of its configuration. Batches are a function of (seed, step), dropout of (seed, step) too, so
that a step can be made again alone, and a run that was killed and resumed ends with the weights of one that was not,
bit for bit (same machine, same number of threads). Only a limit in minutes lets the clock in.

The objective is the task's loss plus, in training only, the model's named losses: such as the one by which experts
share the load. `loss` is everywhere the task's alone, so that it can be compared with validation.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..atomic_io import whole_folder
from ..errors import CheckpointError, NotFinite, RunError
from ..interop.folder import WEIGHTS, save_model
from ..interop.weights import check_finite, load_tensors, model_tensors, put_tensors, save_tensors
from ..model.hook import asked
from ..runs import random_state
from ..runs.checkpoint import (
    STATE,
    Checkpoint,
    folder_of,
    load_checkpoint,
    prune,
    remove_broken,
    save_checkpoint,
)
from ..runs.folder import RunFolder
from ..tasks.base import Batch, Task
from . import machine
from .adapters import Trainable
from .diagnose import NOWHERE, first_not_finite
from .disk import Disk
from .evaluation import Evaluations
from .failure import Asked, Interrupts, hung
from .fit import shares_of
from .guard import NOT_FINITE, STOP, Guard
from .named import by_kind, named_losses, named_measures, whole_loss, worst_by_kind
from .optimizer import Optimizer
from .parallel.data_parallel import GradientSums, Part, parts_of_rank
from .parallel.world import ALONE, Ranks
from .position import TENTHS, Limits, Position
from .progress import Progress
from .schedules import Phases, factor
from .settings import TrainingSettings
from .telemetry import Telemetry
from .watchdog import Watchdog
from .weights import RunningAverage, Weights

SAVED_EVERY = 600.0  # seconds between checkpoints where no number of steps is given


def flops_per_unit(model: nn.Module) -> float:
    """Floating-point operations of training on a token or a picture, forward and backward."""
    count = getattr(model, "flops_per_unit", None)
    return float(count()) if callable(count) else 6.0 * sum(p.numel() for p in model.parameters())


class Trainer:
    """One run in progress."""

    def __init__(
        self, task: Task, model: nn.Module, optimizer: Optimizer, settings: TrainingSettings, run: RunFolder,
        shown: Progress, device: torch.device, trained: Trainable, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        self.ranks = ranks
        self.task, self.optimizer, self.settings, self.run, self.shown = task, optimizer, settings, run, shown
        self.device = device
        self.weights = Weights(model, settings.precision, trained.adapters)
        self.average = RunningAverage(model, settings.average) if settings.average else None
        self.parameters = [parameter.tensor for parameter in trained.parameters]
        steps = [n for n in (settings.steps, settings.epochs and task.steps(settings.epochs)) if n]
        self.limits = Limits(min(steps, default=None), settings.tokens, settings.minutes and settings.minutes * 60)
        self.shape = Phases(settings.warmup, settings.decay, settings.final_lr)
        self.position = Position()
        self.evaluations = Evaluations(self)
        self.telemetry = Telemetry(self.weights.model, trained.parameters, settings.telemetry_every)
        self.disk, self.guard = Disk(self), Guard(self)
        self.watchdog = Watchdog(settings.hang_timeout and 60 * settings.hang_timeout, partial(hung, self))
        self.at: tuple[str, Batch] | None = None  # the batch whose gradients are being made
        self.between_steps = True
        self.sums = GradientSums(ranks, self.weights.master, self.parameters) if ranks.several else None
        self.peak = ranks.size * machine.peak(device, settings.precision) if ranks.first else 1.0
        self.flops = flops_per_unit(model)
        self.saved, self.saved_at = -1, ranks.now()
        self.after_step = asked(getattr(model, "architecture", None), "after_step")
        self.packages = run.packages()
        self.fixed = trained.fixed if self.after_step is None else frozenset[str]()
        self._begin = ranks.now()
        self._step_seconds, self._step_units, self._waited = 0.0, 0, 0.0

    @property
    def seconds(self) -> float:
        """Time spent on the run, in all its sittings."""
        return self.position.seconds + self.ranks.now() - self._begin

    def progress(self, units: int = 0) -> float:
        """The share of the run that is done; with `units`, in the middle of a step that sees so many."""
        p, half = self.position, 0.5 if units else 0.0
        seconds = self.seconds + half * self._step_seconds
        return self.limits.progress(p.step + half, p.units + half * units, seconds, p.reserve)

    def run_until_end(self, interrupts: Interrupts) -> str:
        """Make steps until a limit is reached; returns why it ended."""
        settings, p, every = self.settings, self.position, self.settings.checkpoint_every
        self.weights.publish()
        self._meet(interrupts)
        self._begin = self.saved_at = self.ranks.now()
        while True:
            self._meet(interrupts)
            end = self.limits.reached(p.step, p.units, self.seconds, p.reserve)
            try:
                interrupts.check()
                if not end and self.evaluations.due():
                    self.evaluations.evaluate(interrupts)
                if not end and settings.patience and p.worse >= settings.patience:
                    end = f"no better evaluation in {settings.patience}"
                if end and self.evaluations.last_due():
                    self.evaluations.last(interrupts)
            except Asked:
                end = "interrupted"
                self._meet(interrupts)
            late = self.ranks.now() - self.saved_at > SAVED_EVERY
            planned = p.step % every == 0 if every else p.evaluated == p.step
            if self.saved != p.step and (planned or (late and not every) or end):
                self.save(planned, must=bool(end))
                self.saved_at = self.ranks.now()
            elif planned:  # saved when it was asked to end, before this evaluation
                self.guard.set_anchor()
            if end and settings.average_checkpoints > 1 and not interrupts.asked and p.averaged != p.step:
                with suppress(Asked):
                    if self.evaluations.mean(interrupts):
                        self.save(must=True)
            if end:
                return end
            self.watchdog.beat()
            self.step()
            self.watchdog.beat()

    def _meet(self, interrupts: Interrupts) -> None:
        """Agree with the other ranks on the time, and on whether the run is asked to end."""
        if self.ranks.several:
            own = (interrupts.asked, interrupts.preempted, self.ranks.first * self._step_seconds)
            asked, preempted, self._step_seconds = self.ranks.meet(*map(float, own))
            interrupts.asked, interrupts.preempted = asked > 0, preempted > 0

    def step(self) -> None:
        """One update of the weights. Raises NotFinite before anything is changed."""
        p, settings, begin = self.position, self.settings, time.monotonic()
        state = random.getstate(), np.random.get_state()
        batches = [self.task.batch(p.step, m).to(self.device) for m in range(settings.accumulate)]
        waited = time.monotonic() - begin
        units = [self.task.units(b) for b in batches]
        total = max(1, sum(units))
        whole = [(batch, own / total) for batch, own in zip(batches, units, strict=True)]
        shared = [
            part for one in whole for part in shares_of(self.task, *one, settings.micro_batches * self.ranks.size)
        ]
        lr = float(settings.lr or 0.0) * factor(settings.lr_schedule, self.progress(total), self.shape)
        self.weights.model.train()
        self.guard.remember()
        own = parts_of_rank(self.ranks, shared)
        loss, named = self.gradients(own)
        if self.sums is not None:
            loss, named = self.sums.summed(loss, named, idle=not any(share for _, _, share in own))
        self.telemetry.note_gradients()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, settings.clip or math.inf)
        objective = loss + sum(named.values())
        if fault := self.guard.fault(loss, objective, float(norm)):
            after = random.getstate(), np.random.get_state()
            random.setstate(state[0])
            np.random.set_state(state[1])
            self._leave_out(
                fault, shared, {"loss": loss, "objective": objective, "gradient_norm": float(norm)}, sum(units)
            )
            random.setstate(after[0])
            np.random.set_state(after[1])
            return
        self.between_steps = False
        self.optimizer.step(lr)
        self.weights.adapters.merge()
        measures = named_measures(self.weights.model)
        change: Any = getattr(self.weights.model, "after_step", None)
        if change is not None:
            change()
        if self.after_step is not None:
            self.after_step(self.weights.master)
        self.weights.publish()
        self.weights.clear()
        p.step, p.units = p.step + 1, p.units + sum(units)
        if self.average is not None:
            self.average.update(p.step)
        self.between_steps = True
        took = time.monotonic() - begin
        self._step_seconds = took if not self._step_seconds else 0.9 * self._step_seconds + 0.1 * took
        self._step_units = sum(units)
        self._waited = waited if not self._waited else 0.9 * self._waited + 0.1 * waited
        self._tell(loss, named, measures, float(norm), lr)

    def begin(self, batch: Batch, fresh: bool) -> None:
        """What comes before the first step. Writes the tensors that keep their values, which no checkpoint holds."""
        if fresh:
            self.calibrate(batch)
        if self.fixed and self.ranks.first:
            with whole_folder(self.run.fixed) as folder:
                save_tensors(folder / WEIGHTS, self._tensors(fixed=True))

    def calibrate(self, batch: Batch) -> None:
        """Do what the model's `calibrate` hook asks for, over the first batch, and say what was done."""
        master = self.weights.master
        hook = asked(getattr(master, "architecture", None), "calibrate")
        if hook is None:
            return
        with random_state.kept():
            self.seed_generators(0)
            self.shown.say(str(hook(master.train(), lambda: self.task.loss(master, batch))))

    def seed_generators(self, micro: int) -> None:
        """Dropout and the like: a function of (seed, step, micro-batch)."""
        key = hashlib.blake2b(f"{self.settings.seed}/{self.position.step}/{micro}".encode(), digest_size=8).digest()
        torch.manual_seed(int.from_bytes(key, "little") >> 1)

    def gradients(self, parts: list[Part]) -> tuple[float, dict[str, float]]:
        """Gradients of the mean loss over micro-batches into the masters; returns (the task's, the named ones)."""
        losses: list[Tensor] = []
        sums: dict[str, float] = {}
        self.weights.clear()
        for micro, batch, share in parts:
            model = self.weights.model if micro else self.telemetry.model_for(self.position.step, self.task, batch)
            self.seed_generators(micro)
            self.at = f"micro-batch {micro + 1} of {self.ranks.size * len(parts)}", batch
            loss, named = self._losses(model, batch, share)
            torch.autograd.backward(whole_loss(loss, named))
            self.weights.collect()
            losses.append(loss.detach())
            for name, value in named.items():
                sums[name] = sums.get(name, 0.0) + float(value.detach())
        self.at = None
        return float(torch.stack(losses).sum()), sums

    def _losses(self, model: nn.Module, batch: Batch, share: float) -> tuple[Tensor, dict[str, Tensor]]:
        """A micro-batch's share of the task's loss, of the model or its watched twin, and of each named one."""
        loss: Tensor = self.task.loss(model, batch) * share
        return loss, {name: value * share for name, value in named_losses(self.weights.model).items()}

    def _whole_loss(self, batch: Batch, share: float) -> Tensor:
        return whole_loss(*self._losses(self.weights.model, batch, share))

    def _leave_out(self, fault: str, shared: list[tuple[Batch, float]], measured: dict[str, float], units: int) -> None:
        """Record a step that is not to be taken, and go on without it or raise, as the policy says."""
        stops, step, place = self.guard.policies[fault] == STOP, self.position.step + 1, ""
        if fault == NOT_FINITE:
            place = self._place_of(shared, stops)
            what = f"the {'gradient' if math.isfinite(measured['objective']) else 'loss'} is not a finite number"
            what += f"; it first appears in {place}"
        else:
            middle, deviation = self.guard.usual()
            what = f"the loss, {measured['loss']:.4g}, is more than {self.guard.spike:g} standard deviations"
            what += f" ({deviation:.3g}) above its median, {middle:.4g}"
        folder = self.guard.record(fault, shared, {**measured, **({"place": place} if place else {})})
        self.guard.forget()
        if not stops:
            self.guard.leave_out(fault, units, folder, what)
            return
        kept = sorted(self.run.checkpoints.glob("step-*"))
        message = f"step {step}: {what}. The batch is kept in {folder}."
        message += f" The last good checkpoint is {kept[-1]}." if kept and fault == NOT_FINITE else ""
        option = f"--on-{fault.replace(' ', '-')} skip"
        message += (
            f" A resume with {option} leaves the batch out. Otherwise begin a new run; a lower learning rate (--lr),"
        )
        message += " a longer --warmup or --precision float32 may help"
        raise NotFinite(message, step=step, place=place) if fault == NOT_FINITE else RunError(message)

    def _place_of(self, shared: list[tuple[Batch, float]], release: bool) -> str:
        """Where a number that is not finite first appears: the step is made again, with its random state."""
        self.weights.clear()
        if release:
            self.weights.adapters.release()
        found = NOWHERE
        for micro, batch, share in parts_of_rank(self.ranks, shared):
            self.seed_generators(micro)
            found = first_not_finite(self.weights.model, partial(self._whole_loss, batch, share))
            if found != NOWHERE:
                break
            self.weights.collect()
        for rank, place in enumerate(self.ranks.each(found)):
            if place != NOWHERE:
                return f"{place}, on rank {rank}" if self.ranks.several else place
        return NOWHERE

    def _tell(self, loss: float, named: dict[str, float], measures: dict[str, float], norm: float, lr: float) -> None:
        p = self.position
        for name, value in named.items():
            p.named_sums[name] = p.named_sums.get(name, 0.0) + value
        p.loss_sum, p.loss_count = p.loss_sum + loss, p.loss_count + 1
        mean, means = p.loss_sum / p.loss_count, {name: total / p.loss_count for name, total in p.named_sums.items()}
        rate = self._step_units / self._step_seconds
        done, seconds = self.progress(), self.seconds
        left = (self.limits.seconds - seconds) if self.limits.seconds and not self.limits.steps else None
        if left is None and done > 0:
            left = seconds * (1 - done) / done
        share = rate * self.flops / self.peak
        waiting = self._waited / self._step_seconds
        added = {
            **by_kind(means),
            **worst_by_kind(measures),
            **({"waiting for data": waiting} if waiting >= 0.01 else {}),
        }
        self.shown.step(p.step, done, mean, rate, share, left, lr, added)
        for text in self.task.memory.news(p.step - 1) if self.task.memory else ():
            self.shown.say(text, warning=True)
            self.disk.log("data", step=p.step, units=p.units, text=text)
        if p.step % self.settings.log_every == 0:
            self.disk.log(
                "step", step=p.step, units=p.units, seconds=round(seconds, 3), loss=mean, gradient_norm=norm, lr=lr,
                rate=round(rate, 1), share_of_peak=round(share, 4), waiting=round(waiting, 4),
                **({"losses": means} if means else {}), **({"measures": measures} if measures else {}),
            )  # fmt: skip
            p.loss_sum, p.loss_count, p.named_sums = 0.0, 0, {}
        if measured := self.telemetry.read():
            self.disk.log("telemetry", step=p.step, units=p.units, **measured)

    def evaluated(self) -> AbstractContextManager[None]:
        """Within it the master holds the weights that are evaluated and kept: the running average, if there is one."""
        if self.average is None:
            return nullcontext()
        return self.weights.holding({**self.weights.numbers(), **self.average.average}, self.run.path)

    def keep_model(self, folder: Path) -> None:
        """Write the folder of the model that the master holds."""
        predictor = self.task.predictor()
        save_model(folder, self.weights.master, predictor.save if predictor else None)

    def _tensors(self, fixed: bool) -> dict[str, Tensor]:
        """Those of the model that keep their values, or those that change."""
        return {name: t for name, t in model_tensors(self.weights.master).items() if (name in self.fixed) == fixed}

    def save(self, planned: bool = False, must: bool = False) -> None:
        """Write a checkpoint, and the model of `last/`.

        planned  by the settings, and not by the clock or an interruption: the run may roll back to it
        must     it is the last time: raise what fails
        """
        if self.disk.attempt("the checkpoint", partial(self.write_checkpoint, planned), must):
            if planned:
                self.guard.set_anchor()
            self.saved = self.position.step

    def write_checkpoint(self, planned: bool = False) -> None:
        """What `save` does on one rank."""
        p = self.position
        self.shown.busy(f"step {p.step:,}  saving")
        self.run.check_there()
        state = {
            **asdict(p),
            **(self.guard.anchored() if planned else {}),
            "seconds": self.seconds,
            "log_lines": self.run.log.lines,
        }
        state["optimizer"] = self.settings.optimizer
        if self.ranks.several:
            state["ranks"] = self.ranks.size
        checkpoint = Checkpoint(
            p.step, self._tensors(fixed=False), self.optimizer.tensors(), random_state.capture(), state,
            average={} if self.average is None else self.average.average, adapters=self.weights.adapters.tensors(),
            carried=self.task.memory.tensors() if self.task.memory else {}, run=self.run.identity,
        )  # fmt: skip
        save_checkpoint(self.run.checkpoints, checkpoint)
        with self.evaluated():
            self.keep_model(self.run.last)
        if planned:
            self.guard.set_anchor()
        keep = max(self.settings.keep, self.settings.average_checkpoints)
        prune(self.run.checkpoints, keep, p.best_step or None, self.guard.anchor)

    def resume(self) -> None:
        """Go on from the newest whole checkpoint; from the start if the run was stopped before its first one."""
        checkpoint, damaged = self._newest()
        for text in damaged:
            self.shown.say(f"passed over: {text}", warning=True)
        if checkpoint is None:
            if self.run.config().get("init_from") is not None:
                what = (
                    f"{self.run.path}: no checkpoint was written yet, and the weights that it began with are not here"
                )
                raise CheckpointError(f"{what}; begin it again: --config {self.run.path} --out OTHER")
            self.run.log.rewind(-1)
            self.shown.say("no checkpoint was written yet: starting from the beginning")
            return
        path, state = folder_of(self.run.checkpoints, checkpoint.step), dict(checkpoint.state)
        lines, ranks = state.pop("log_lines", None), state.pop("ranks", 1)
        former = state.pop("optimiser", self.settings.optimizer)  # as earlier versions spelled it
        used = state.pop("optimizer", former)
        if used != self.settings.optimizer:
            what = f"this run used the optimizer {used}; a resume cannot change it to {self.settings.optimizer}"
            raise CheckpointError(f"{self.run.path}: {what}. Begin a new run")
        self.position = Position.read({**state, "step": checkpoint.step}, path / STATE)
        self.take(checkpoint, path)
        if self.task.memory:
            self.task.memory.put(checkpoint.carried)
        try:
            random_state.restore(checkpoint.streams)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"{path / 'streams.safetensors'}: damaged ({error})") from None
        # Of a run that is to become longer a smaller share is done than was.
        self.position.tenths = min(self.position.tenths, int(TENTHS * self.progress() + 1e-9))
        self.saved = checkpoint.step
        self.run.log.rewind(checkpoint.step, lines if type(lines) is int and lines >= 0 else None)
        length = self.settings.length
        self.run.log.write(
            "resumed", step=checkpoint.step, length=length, **({"passed_over": damaged} if damaged else {})
        )
        if ranks != self.ranks.size:
            self._take_over(ranks)
        gone = remove_broken(self.run.checkpoints, checkpoint.step) if self.ranks.first else []
        broken = ", ".join(folder.name for folder in gone)
        removed = f"; removed what is broken: {broken}" if broken else ""
        self.shown.say(f"going on from step {checkpoint.step:,}{removed}", warning=bool(damaged))
        self.evaluations.check_best()

    def _take_over(self, ranks: int) -> None:
        """Go on from a checkpoint of so many ranks: in as many micro-batches, if these can be shared out, so that what
        dropout draws stays the same."""
        parts, size = ranks * self.settings.micro_batches, self.ranks.size
        if parts % size == 0:
            self.settings = self.settings.model_copy(update={"micro_batches": parts // size})
            self.run.write_config({**self.run.config(), "micro_batches": parts // size})
        what = "but for rounding" + ("" if parts % size == 0 else ", and for what dropout draws")
        told = f"ranks: {size}, and the checkpoint was written by {ranks}"
        self.shown.say(f"{told}: from here on it is the run that was not interrupted {what}", warning=True)

    def _newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest whole checkpoint, which every rank reads, and what is wrong with those passed over."""
        if not self.ranks.several:
            return self.run.newest_checkpoint()
        found: Checkpoint | None = None

        def look() -> tuple[int | None, list[str]]:
            nonlocal found
            found, damaged = self.run.newest_checkpoint()
            return (None if found is None else found.step), damaged

        step, damaged = self.ranks.by_first(look)
        if step is not None and found is None:
            found = load_checkpoint(folder_of(self.run.checkpoints, step), self.run.identity)
        return found, damaged

    def take(self, checkpoint: Checkpoint, path: Path) -> None:
        """Take up the weights of a checkpoint, their average and what the optimizer kept. Raises CheckpointError."""
        fixed = load_tensors(self.run.fixed / WEIGHTS) if self.fixed else {}
        put_tensors(self.weights.master, {**fixed, **checkpoint.weights}, path / WEIGHTS)
        self.weights.adapters.load(checkpoint.adapters)
        check_finite(self.weights.master.named_parameters(), path / WEIGHTS)
        if self.average is not None:
            # A run that had none until now begins it at these weights.
            self.average.load(checkpoint.average or model_tensors(self.weights.master), path / "average.safetensors")
        self.optimizer.load(checkpoint.optimizer)

    def use_best(self) -> None:
        """Put the weights of the best evaluation into the model."""
        path = self.run.best / WEIGHTS
        if self.position.best_step and path.is_file():
            put_tensors(self.weights.master, load_tensors(path), path)
            self.weights.publish()
