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
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..atomic_io import whole_folder
from ..errors import NotFinite, RunError
from ..interop.folder import WEIGHTS
from ..interop.weights import model_tensors, put_tensors, save_tensors
from ..model.hook import asked
from ..runs import random_state
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
from .parallel.dtensors import clip_gradients
from .parallel.sharded import FROM_RANKS, ShardedModel
from .parallel.world import ALONE, Ranks
from .position import Limits, Position
from .progress import Progress
from .saving import Saving
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
        sharded: ShardedModel | None = None,
    ) -> None:  # fmt: skip
        self.ranks, self.sharded = ranks, sharded
        self.task, self.optimizer, self.settings, self.run, self.shown = task, optimizer, settings, run, shown
        self.device = device
        self.weights = Weights(model, settings.precision, trained.adapters, sharded=sharded)
        self.average = RunningAverage(model, settings.average) if settings.average else None
        self.parameters = [parameter.tensor for parameter in trained.parameters]
        steps = [n for n in (settings.steps, settings.epochs and task.steps(settings.epochs)) if n]
        self.limits = Limits(min(steps, default=None), settings.tokens, settings.minutes and settings.minutes * 60)
        self.shape = Phases(settings.warmup, settings.decay, settings.final_lr)
        self.position = Position()
        self.evaluations = Evaluations(self)
        self.telemetry = Telemetry(self.weights, trained.parameters, settings.telemetry_every)
        self.disk, self.guard = Disk(self), Guard(self)
        self.saving = Saving(self)
        self.watchdog = Watchdog(settings.hang_timeout and 60 * settings.hang_timeout, partial(hung, self))
        self.at: tuple[str, Batch] | None = None  # the batch whose gradients are being made
        self.between_steps = True
        own = [p.tensor for p in trained.parameters if sharded is None or p.name in sharded.own]
        self.sums = GradientSums(ranks, self.weights.master, own) if ranks.several else None
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
            evaluated = p.evaluated, p.whole
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
            if end:
                self.saving.finish()  # one that failed is tried once more
            late = self.ranks.now() - self.saved_at > SAVED_EVERY
            planned = p.step % every == 0 if every else p.evaluated == p.step
            unsaved = self.saved != p.step or (p.evaluated, p.whole) != evaluated
            if unsaved and (planned or (late and not every) or end):
                self.saving.save(planned, must=bool(end))
                self.saved_at = self.ranks.now()
            elif planned:  # saved when it was asked to end
                self.guard.set_anchor()
            if end and settings.average_checkpoints > 1 and not interrupts.asked and p.averaged != p.step:
                with suppress(Asked):
                    if self.evaluations.mean(interrupts):
                        self.saving.save(must=True)
            if end:
                return end
            self.watchdog.beat()
            self.step()
            self.watchdog.beat()

    def _meet(self, interrupts: Interrupts) -> None:
        """Agree with the other ranks on the time, and on whether the run is asked to end."""
        if self.ranks.several:
            own = (interrupts.asked, interrupts.preempted, self.ranks.first * self._step_seconds, self.saving.busy)
            asked, preempted, self._step_seconds, busy = self.ranks.meet(*map(float, own))
            interrupts.asked, interrupts.preempted = asked > 0, preempted > 0
            if not busy:
                self.saving.finish()

    def step(self) -> None:
        """One update of the weights. Raises NotFinite before anything is changed."""
        p, settings, begin = self.position, self.settings, time.monotonic()
        state = random.getstate(), np.random.get_state()
        batches = [self.task.batch(p.step, m).to(self.device) for m in range(settings.accumulate)]
        waited = time.monotonic() - begin
        units = [self.task.units(b) for b in batches]
        total = max(1, sum(units))
        shared = shares_of(self.task, batches, settings.micro_batches * self.ranks.data_size)
        lr = float(settings.lr or 0.0) * factor(settings.lr_schedule, self.progress(total), self.shape)
        self.weights.model.train()
        self.guard.remember()
        own = parts_of_rank(self.ranks, shared)
        loss, named = self.gradients(own)
        if self.sums is not None:
            loss, named = self.sums.summed(loss, named, idle=not any(share for _, _, share in own))
        self.telemetry.note_gradients()
        clip: Any = torch.nn.utils.clip_grad_norm_ if self.sharded is None else clip_gradients
        norm = clip(self.parameters, settings.clip or math.inf)
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
        fixed = self.saving.tensors(fixed=True)
        if self.fixed and self.ranks.first:
            with whole_folder(self.run.fixed) as folder:
                save_tensors(folder / WEIGHTS, fixed)

    def calibrate(self, batch: Batch) -> None:
        """Do what the model's `calibrate` hook asks for, over the first batch, and say what was done."""
        hook = asked(getattr(self.weights.master, "architecture", None), "calibrate")
        if hook is None:
            return
        master = self.weights.whole().master if self.sharded else self.weights.master
        with random_state.kept():
            self.seed_generators(0)
            self.shown.say(str(hook(master.train(), lambda: self.task.loss(master, batch))))
        if self.sharded:
            put_tensors(self.weights.master, model_tensors(master), FROM_RANKS)

    def seed_generators(self, micro: int) -> None:
        """Dropout and the like: a function of (seed, step, micro-batch)."""
        key = hashlib.blake2b(f"{self.settings.seed}/{self.position.step}/{micro}".encode(), digest_size=8).digest()
        random_state.seed_torch(int.from_bytes(key, "little") >> 1)

    def gradients(self, parts: list[Part]) -> tuple[float, dict[str, float]]:
        """Gradients of the mean loss over micro-batches into the masters; returns (the task's, the named ones)."""
        losses: list[Tensor] = []
        sums: dict[str, float] = {}
        self.weights.clear()
        for micro, batch, share in parts:
            model = self.weights.model
            if micro == 0 or (self.sharded is not None and micro == parts[0][0]):  # then all ranks are asked
                model = self.telemetry.model_for(self.position.step, self.task, batch)
            self.seed_generators(micro)
            self.at = f"micro-batch {micro + 1} of {self.ranks.data_size * len(parts)}", batch
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
        return loss, {name: value * share for name, value in named_losses(model).items()}

    def _whole_loss(self, model: nn.Module, batch: Batch, share: float) -> Tensor:
        return whole_loss(*self._losses(model, batch, share))

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
        found, weights = NOWHERE, self.weights.whole()  # ranks may part here: nothing is divided
        weights.model.train()
        for micro, batch, share in parts_of_rank(self.ranks, shared):
            self.seed_generators(micro)
            found = first_not_finite(weights.model, partial(self._whole_loss, weights.model, batch, share))
            if found != NOWHERE:
                break
            weights.collect()
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

    def gather(self) -> None:
        """At the end of a run, on all ranks: hold the whole model, so that each of them can go on alone."""
        self.weights = self.weights.whole()
        self.sharded = None
