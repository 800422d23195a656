"""The loop: batches, losses, gradients, updates, evaluations, checkpoints. It knows no task by name.

A run is a pure function of its configuration. Batches are a function of (seed, step), dropout of (seed, step) too, so
that a step can be made again alone, and a run that was killed and resumed ends with the weights of one that was not,
bit for bit (same machine, same number of threads). Only a limit in minutes lets the clock in.

The objective is the task's loss plus, in training only, the model's named losses (`losses.py`): such as the one by
which experts share the load. `loss` is everywhere the task's alone, so that it can be compared with validation.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import CheckpointError, NotFinite
from ..interop.folder import WEIGHTS, save_model
from ..interop.weights import check_finite, load_tensors, model_tensors, put_tensors
from ..model.hook import asked
from ..runs import random_state
from ..runs.checkpoint import STATE, Checkpoint, folder_of, prune, save_checkpoint
from ..runs.folder import RunFolder
from ..tasks.base import Batch, Task
from . import machine
from .average import RunningAverage
from .diagnose import first_not_finite
from .evaluation import TENTHS, Evaluations
from .interrupt import Asked, Interrupts
from .limits import Limits
from .losses import by_kind, named_losses, whole_loss
from .optimizer import Optimizer
from .position import Position, read_position
from .precision import Weights
from .progress import Progress
from .schedules import Phases, factor
from .settings import TrainingSettings

SAVED_EVERY = 600.0
"""Seconds between checkpoints where no number of steps is given."""


def flops_per_unit(model: nn.Module) -> float:
    """Floating-point operations of training on one token, forward and backward."""
    count = getattr(model, "flops_per_token", None)
    if callable(count):
        return float(count())
    return 6.0 * sum(p.numel() for p in model.parameters())


class Trainer:
    """One run in progress."""

    def __init__(
        self, task: Task, model: nn.Module, optimizer: Optimizer, settings: TrainingSettings, run: RunFolder,
        shown: Progress, device: torch.device,
    ) -> None:  # fmt: skip
        self.task, self.optimizer, self.settings, self.run, self.shown = task, optimizer, settings, run, shown
        self.device = device
        self.weights = Weights(model, settings.precision)
        self.average = RunningAverage(model, settings.average) if settings.average else None
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        steps = [n for n in (settings.steps, settings.epochs and task.steps(settings.epochs)) if n]
        self.limits = Limits(min(steps, default=None), settings.tokens, settings.minutes and settings.minutes * 60)
        self.shape = Phases(settings.warmup, settings.decay, settings.final_lr)
        self.position = Position()
        self.evaluations = Evaluations(self)
        self.between_steps = True
        self.peak = machine.peak(device, settings.precision)
        self.flops = flops_per_unit(model)
        self.saved, self.saved_at = -1, time.monotonic()
        self.after_step = asked(getattr(model, "architecture", None), "after_step")
        self._begin = time.monotonic()
        self._step_seconds = 0.0
        self._step_units = 0

    # How far the run is.

    @property
    def seconds(self) -> float:
        """Time spent on the run, in all its sittings."""
        return self.position.seconds + time.monotonic() - self._begin

    def progress(self, units: int = 0) -> float:
        """The share of the run that is done; with `units`, in the middle of a step that sees so many."""
        p, half = self.position, 0.5 if units else 0.0
        return self.limits.progress(
            p.step + half, p.units + half * units, self.seconds + half * self._step_seconds, p.reserve
        )

    def save_due(self) -> bool:
        """Whether a checkpoint is to be written now."""
        p, every = self.position, self.settings.checkpoint_every
        if self.saved == p.step:
            return False
        if p.step == 0:
            return True
        if every:
            return p.step % every == 0
        return p.evaluated == p.step or time.monotonic() - self.saved_at > SAVED_EVERY

    # The loop.

    def run_until_end(self, interrupts: Interrupts) -> str:
        """Make steps until a limit is reached; returns why it ended."""
        settings, p = self.settings, self.position
        self.weights.publish()
        self._begin, self.saved_at = time.monotonic(), time.monotonic()
        while True:
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
            if self.save_due() or (end and self.saved != p.step):
                self.save()
            if end and settings.average_checkpoints > 1 and not interrupts.asked and p.averaged != p.step:
                try:
                    if self.evaluations.mean(interrupts):
                        self.save()
                except Asked:
                    pass
            if end:
                return end
            self.step()

    def step(self) -> None:
        """One update of the weights. Raises NotFinite before anything is changed."""
        p, settings, begin = self.position, self.settings, time.monotonic()
        state = random.getstate(), np.random.get_state()
        batches = [self.task.batch(p.step, m).to(self.device) for m in range(settings.accumulate)]
        units = [self.task.units(b) for b in batches]
        total = max(1, sum(units))
        lr = float(settings.lr or 0.0) * factor(settings.lr_schedule, self.progress(total), self.shape)
        self.weights.model.train()
        loss, named = self._gradients(batches, [n / total for n in units])
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, settings.clip or math.inf)
        whole = loss + sum(named.values())
        if not math.isfinite(whole) or not bool(torch.isfinite(norm)):
            random.setstate(state[0])
            np.random.set_state(state[1])
            self._stop_not_finite(batches, [n / total for n in units], whole)
        self.between_steps = False
        self.optimizer.step(lr)
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
        self._tell(loss, named, float(norm), lr)

    def calibrate(self, batch: Batch) -> None:
        """Do what the model's `calibrate` hook asks for, over the first batch, and say what was done."""
        master = self.weights.master
        found = asked(getattr(master, "architecture", None), "calibrate")
        if found is None:
            return
        before = random_state.capture()
        try:
            self.seed_generators(0)
            self.shown.say(str(found(master.train(), lambda: self.task.loss(master, batch))))
        finally:
            random_state.restore(before)

    def seed_generators(self, micro: int) -> None:
        """Dropout and the like: a function of (seed, step, micro-batch)."""
        key = hashlib.blake2b(f"{self.settings.seed}/{self.position.step}/{micro}".encode(), digest_size=8).digest()
        torch.manual_seed(int.from_bytes(key, "little") >> 1)

    def _gradients(self, batches: list[Batch], shares: list[float]) -> tuple[float, dict[str, float]]:
        """Gradients of the mean loss over all micro-batches into the masters; returns (the task's, the named ones)."""
        losses: list[Tensor] = []
        named: dict[str, float] = {}
        self.weights.clear()
        for micro, (batch, share) in enumerate(zip(batches, shares, strict=True)):
            self.seed_generators(micro)
            loss, added = self._losses(batch, share)
            torch.autograd.backward(whole_loss(loss, added))
            self.weights.collect()
            losses.append(loss.detach())
            for name, value in added.items():
                named[name] = named.get(name, 0.0) + float(value.detach())
        return float(torch.stack(losses).sum()), named

    def _losses(self, batch: Batch, share: float) -> tuple[Tensor, dict[str, Tensor]]:
        """A micro-batch's share of the task's loss and of each named one."""
        loss: Tensor = self.task.loss(self.weights.model, batch) * share
        return loss, {name: value * share for name, value in named_losses(self.weights.model).items()}

    def _whole_loss(self, batch: Batch, share: float) -> Tensor:
        return whole_loss(*self._losses(batch, share))

    def _stop_not_finite(self, batches: list[Batch], shares: list[float], loss: float) -> None:
        """Make the step again, find the place, and stop."""
        self.weights.clear()
        place = ""
        for micro, (batch, share) in enumerate(zip(batches, shares, strict=True)):
            self.seed_generators(micro)
            place = first_not_finite(
                self.weights.model, partial(self._whole_loss, batch, share), torch.autograd.backward
            )
            if place:
                break
            self.weights.collect()
        place = place or "the norm of all gradients together, while each is finite"
        step, kept = self.position.step + 1, sorted(self.run.checkpoints.glob("step-*"))
        self.run.log.write("not finite", step=self.position.step, place=place)
        self.weights.clear()
        what = "gradient" if math.isfinite(loss) else "loss"
        raise NotFinite(
            f"step {step}: the {what} is not a finite number; it first appears in {place}."
            + (f" The last good checkpoint is {kept[-1]}." if kept else "")
            + " Begin a new run; a lower learning rate (--lr), a longer --warmup or --precision float32 may help",
            step=step,
            place=place,
        )

    def _tell(self, loss: float, named: dict[str, float], norm: float, lr: float) -> None:
        p = self.position
        for name, value in named.items():
            p.named_sums[name] = p.named_sums.get(name, 0.0) + value
        p.loss_sum, p.loss_count = p.loss_sum + loss, p.loss_count + 1
        rate = self._step_units / self._step_seconds
        done, seconds = self.progress(), self.seconds
        left = (self.limits.seconds - seconds) if self.limits.seconds and not self.limits.steps else None
        if left is None and done > 0:
            left = seconds * (1 - done) / done
        means = {name: total / p.loss_count for name, total in p.named_sums.items()}
        share = rate * self.flops / self.peak
        self.shown.step(p.step, done, p.loss_sum / p.loss_count, rate, share, left, lr, by_kind(means))
        if p.step % self.settings.log_every == 0:
            self.run.log.write(
                "step", step=p.step, units=p.units, seconds=round(seconds, 3), loss=p.loss_sum / p.loss_count,
                gradient_norm=norm, lr=lr, rate=round(rate, 1), share_of_peak=round(share, 4),
                **({"losses": means} if means else {}),
            )  # fmt: skip
            p.loss_sum, p.loss_count, p.named_sums = 0.0, 0, {}

    # Saving, going on.

    @contextmanager
    def evaluated(self) -> Iterator[nn.Module]:
        """Within it the master holds the weights that are evaluated and kept: the running average, if there is one."""
        if self.average is None:
            yield self.weights.master
            return
        try:
            with self.average.in_place():
                self.weights.publish()
                yield self.weights.master
        finally:
            self.weights.publish()

    def save(self) -> None:
        """Write a checkpoint, and the model of `last/`."""
        p = self.position
        self.shown.busy(f"step {p.step:,}  saving")
        self.run.check_there()
        state = {**asdict(p), "seconds": self.seconds, "log_lines": self.run.log.lines}
        state["optimizer"] = self.settings.optimizer
        checkpoint = Checkpoint(
            p.step, model_tensors(self.weights.master), self.optimizer.tensors(), random_state.capture(), state,
            average={} if self.average is None else self.average.average,
            carried=self.task.memory.tensors() if self.task.memory else {}, run=self.run.identity,
        )  # fmt: skip
        save_checkpoint(self.run.checkpoints, checkpoint)
        with self.evaluated() as kept:
            predictor = self.task.predictor()
            save_model(self.run.last, kept, predictor.save if predictor else None)
        prune(self.run.checkpoints, max(self.settings.keep, self.settings.average_checkpoints), p.best_step or None)
        self.saved, self.saved_at = p.step, time.monotonic()

    def resume(self) -> None:
        """Go on from the newest whole checkpoint; from the start if the run was stopped before its first one."""
        checkpoint, damaged = self.run.newest_checkpoint()
        for text in damaged:
            self.shown.say(f"passed over: {text}", warning=True)
        if checkpoint is None:
            self.run.log.rewind(-1)
            self.shown.say("no checkpoint was written yet: starting from the beginning")
            return
        path, state = folder_of(self.run.checkpoints, checkpoint.step), dict(checkpoint.state)
        lines = state.pop("log_lines", None)
        former = state.pop("optimiser", self.settings.optimizer)  # as earlier versions spelled it
        used = state.pop("optimizer", former)
        if used != self.settings.optimizer:
            raise CheckpointError(
                f"{self.run.path}: this run used the optimizer {used}; a resume cannot change it to"
                f" {self.settings.optimizer}. Begin a new run"
            )
        self.position = read_position({**state, "step": checkpoint.step}, path / STATE)
        put_tensors(self.weights.master, checkpoint.weights, path / WEIGHTS)
        check_finite(self.weights.master.named_parameters(), path / WEIGHTS)
        if self.average is not None:
            # A run that had none until now begins it at these weights.
            self.average.load(checkpoint.average or model_tensors(self.weights.master), path / "average.safetensors")
        if self.task.memory:
            self.task.memory.put(checkpoint.carried)
        self.optimizer.load(checkpoint.optimizer)
        try:
            random_state.restore(checkpoint.streams)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"{path / 'streams.safetensors'}: damaged ({error})") from None
        # Of a run that is to become longer a smaller share is done than was.
        self.position.tenths = min(self.position.tenths, int(TENTHS * self.progress() + 1e-9))
        self.saved = checkpoint.step
        self.run.log.rewind(checkpoint.step, lines if type(lines) is int and lines >= 0 else None)
        self.run.log.write("resumed", step=checkpoint.step)
        self.shown.say(f"going on from step {checkpoint.step:,}")

    def use_best(self) -> None:
        """Put the weights of the best evaluation into the model."""
        path = self.run.best / WEIGHTS
        if self.position.best_step and path.is_file():
            put_tensors(self.weights.master, load_tensors(path), path)
            self.weights.publish()
