"""The loop: batches, gradients, updates, evaluations, checkpoints. It knows no task by name.

A run is a pure function of its configuration. Batches are a function of (seed, step), dropout of (seed, step) too, so
that a step can be made again alone, and a run that was killed and resumed ends with the weights of one that was not,
bit for bit (same machine, same number of threads). Only a limit in minutes lets the clock in.

The objective is the task's loss plus, in training only, the model's named losses: such as the one by which experts
share the load. `loss` is everywhere the task's alone, so that it can be compared with validation.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..tasks.base import Batch
from .disk import Disk
from .evaluation import Evaluations
from .failure import Asked, Interrupts, hang_message
from .fit import shares_of
from .gradients import StepGradients, make_gradients, named_measures, read_numbers
from .guard import Guard
from .meter import Meter, StepRecord
from .parallel.data_parallel import GradientSums, parts_of_rank
from .parallel.dtensors import clip_gradients
from .saving import Saving
from .schedules import Phases, factor
from .state import RunState
from .telemetry import Telemetry
from .watchdog import Watchdog

if TYPE_CHECKING:
    from .threads import ThreadTrials

SECONDS_BETWEEN_CHECKPOINTS = 600.0  # seconds between checkpoints where no number of steps is given


class Trainer:
    """Makes the steps of a run, and has it evaluated and saved on its way."""

    def __init__(self, state: RunState, threads: Sequence[int] = ()) -> None:
        settings, sharded = state.settings, state.sharded
        self.state, self.disk = state, Disk(state)
        self.saving = Saving(state, self.disk)
        self.guard = Guard(state, self.disk, self.saving)
        self.watchdog = Watchdog(settings.hang_timeout and 60 * settings.hang_timeout, partial(hang_message, state))
        self.evaluations = Evaluations(state, self.disk, self.saving, self.watchdog)
        self.telemetry = Telemetry(state.weights, state.trained, settings.telemetry_every)
        self.meter = Meter(state, self.disk, self.telemetry)
        self.trials: ThreadTrials | None = None
        if len(threads) > 1:
            from .threads import ThreadTrials

            self.trials = ThreadTrials(state, self.disk, threads)
        own = [p.tensor for p in state.trained if sharded is None or p.name in sharded.own]
        self.sums = GradientSums(state.ranks, state.weights.master, own) if state.ranks.several else None
        self.schedule = Phases(settings.warmup, settings.decay, settings.final_lr)
        self._saved_at = state.ranks.now()

    def run_until_end(self, interrupts: Interrupts) -> str:
        """Make steps until a limit is reached; returns why it ended."""
        state, settings, p = self.state, self.state.settings, self.state.position
        state.weights.publish()
        self._meet(interrupts)
        if self.evaluations.watching is not None:
            self.evaluations.watching.begin()
        state.start_clock()
        self._saved_at = state.ranks.now()
        while True:
            self._meet(interrupts)
            end = state.limits.reached(p.step, p.units, state.seconds, p.reserve)
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
            self._save(end, new=(p.evaluated, p.whole) != evaluated)
            if end:
                self._average(interrupts)
                return end
            self.watchdog.beat()
            if self.trials is not None:
                self.trials.before()
            begun = time.monotonic()
            self.step()
            if self.trials is not None:
                self.trials.after(time.monotonic() - begun)
            self.watchdog.beat()

    def _meet(self, interrupts: Interrupts) -> None:
        """Agree with the other ranks on the time, and on whether the run is asked to end."""
        state = self.state
        if state.ranks.several:
            own = (interrupts.asked, interrupts.preempted, state.ranks.first * state.step_seconds, state.writing)
            asked, preempted, state.step_seconds, writing = state.ranks.meet(*map(float, own))
            interrupts.asked, interrupts.preempted = asked > 0, preempted > 0
            if not writing:
                self.saving.finish()

    def _save(self, end: str, new: bool) -> None:
        """Write a checkpoint where one is due.

        end  why the run ends; "" while it does not
        new  whether the run was evaluated since the last step
        """
        state, p, every = self.state, self.state.position, self.state.settings.checkpoint_every
        if end:
            self.saving.finish()  # one that failed is tried once more
        late = state.ranks.now() - self._saved_at > SECONDS_BETWEEN_CHECKPOINTS
        planned = p.step % every == 0 if every else p.evaluated == p.step
        if (new or state.saved != p.step) and (planned or (late and not every) or end):
            self.saving.save(planned, must=bool(end))
            self._saved_at = state.ranks.now()
        elif planned:  # saved when it was asked to end
            state.set_anchor()

    def _average(self, interrupts: Interrupts) -> None:
        """At the end, try the mean of the last checkpoints."""
        state, p = self.state, self.state.position
        if state.settings.average_checkpoints > 1 and not interrupts.asked and p.averaged != p.step:
            with suppress(Asked):
                if self.evaluations.mean(interrupts):
                    self.saving.save(must=True)

    def step(self) -> None:
        """One update of the weights. Raises NotFinite before anything is changed."""
        state, begin = self.state, time.monotonic()
        p, settings = state.position, state.settings
        generators = random.getstate(), np.random.get_state()
        batches = [state.task.batch(p.step, micro) for micro in range(settings.accumulate)]
        waited = time.monotonic() - begin
        units = sum(state.task.units(batch) for batch in batches)  # counted here, so that no device is waited for
        shares = shares_of(state.task, batches, settings.micro_batches * state.ranks.data_size)
        shared = [(batch.to(state.device), share) for batch, share in shares]
        lr = float(settings.lr or 0.0) * factor(settings.lr_schedule, state.progress(max(1, units)), self.schedule)
        made = self._gradients(shared)
        objective = made.loss + sum(made.named.values())
        if fault := self.guard.fault(made.loss, objective, made.norm):
            measured = {"loss": made.loss, "objective": objective, "gradient_norm": made.norm}
            with with_generators(*generators):
                self.guard.answer(fault, shared, measured, units)
            return
        state.between_steps = False
        self._update(lr)
        p.step, p.units = p.step + 1, p.units + units
        if state.average is not None:
            state.average.update(p.step)
        state.between_steps = True
        self.meter.take(StepRecord(**vars(made), lr=lr, units=units, seconds=time.monotonic() - begin, waited=waited))

    def _gradients(self, shared: list[tuple[Batch, float]]) -> StepGradients:
        """Gradients of a step into the masters, of all ranks, clipped."""
        state = self.state
        state.weights.model.train()
        self.guard.remember()
        own = parts_of_rank(state.ranks, shared)
        loss, named = make_gradients(state, self.telemetry, own)
        losses: Any = {"": loss, **named}
        if self.sums is not None:
            (losses,) = read_numbers(losses)
            losses = self.sums.summed(losses, idle=not any(share for _, _, share in own))
        self.telemetry.note_gradients()
        clip: Any = torch.nn.utils.clip_grad_norm_ if state.sharded is None else clip_gradients
        norm = clip(state.parameters, state.settings.clip or math.inf)
        read, norms, measures = read_numbers(losses, {"": norm}, named_measures(state.weights.model))
        return StepGradients(read.pop(""), read, norms[""], measures)

    def _update(self, lr: float) -> None:
        """Change the weights by their gradients, and drop these."""
        state, weights = self.state, self.state.weights
        state.optimizer.step(lr)
        weights.adapters.merge()
        change: Any = getattr(weights.model, "after_step", None)
        if change is not None:
            change()
        if state.after_step is not None:
            state.after_step(weights.master)
        weights.publish()
        weights.clear()


@contextmanager
def with_generators(own: Any, numpys: Any) -> Iterator[None]:
    """Within it Python's and numpy's generators stand where they were; then where they are."""
    now = random.getstate(), np.random.get_state()
    random.setstate(own)
    np.random.set_state(numpys)
    yield
    random.setstate(now[0])
    np.random.set_state(now[1])
