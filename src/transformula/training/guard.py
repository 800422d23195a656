"""Steps whose gradient is not to be taken: a number that is not finite, or a loss far above what it was (a spike).

    loss > m + spike * s,   m = median of the last 50 losses,   s = 1.4826 * median |loss_i - m|

is a spike (s is the standard deviation of losses that are normally distributed, and one outlier does not move it). It
does not count among the 50. By its policy a run stops there, skips the batch, or rolls back: to the weights of the last
planned checkpoint, leaving out all batches since. Each is a function of the weights and the step, so that a run that is
killed and resumed does the same.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from ..atomic_io import whole_folder
from ..errors import CheckpointError, NotFinite, RunError
from ..interop.weights import load_tensors, save_tensors
from ..plain import plain
from ..runs.checkpoint import checkpoint_folders, folder_of, load_checkpoint
from ..structured import load_json
from ..tasks.base import Batch
from .disk import Disk
from .gradients import whole_loss_of
from .parallel.data_parallel import parts_of_rank
from .saving import Saving
from .state import RunState

RECENT_LOSSES = 50  # losses that one is compared with
MIN_LOSSES = 20  # of them, before which no loss is a spike
DEVIATIONS_OF_NORMAL = 1.4826  # the standard deviation of a normal distribution, in its median absolute deviations
MIN_DEVIATION = 1e-3  # of the median, taken for the deviation of losses that hardly differ
MAX_LEFT_OUT = 10  # steps in a row that are left out; beyond, it is not the batches that are at fault
NOT_FINITE, SPIKE = "not finite", "spike"
STOP, SKIP, ROLLBACK = "stop", "skip", "rollback"
BATCH, ABOUT = "batch.safetensors", "about.json"


class Guard:
    """Looks at each step of a run before the weights change."""

    def __init__(self, state: RunState, disk: Disk, saving: Saving) -> None:
        self.state, self.disk, self.saving = state, disk, saving
        settings = state.settings
        self.policies = {NOT_FINITE: settings.on_not_finite, SPIKE: settings.on_spike}
        far = settings.spike
        self.spike = 0.0 if settings.on_spike == "continue" else far
        self.remembers = bool({SKIP, ROLLBACK} & {*self.policies.values()}) or bool(self.spike)
        self._buffers: dict[str, Tensor] = {}

    def remember(self) -> None:
        """Before a step: what a forward pass changes."""
        if self.remembers:
            self._buffers = {name: each.clone() for name, each in self.state.weights.master.named_buffers()}

    def _forget(self) -> None:
        """After a step that is not to be taken: its gradients, and what its forward pass changed."""
        self.state.weights.clear()
        for name, buffer in self.state.weights.master.named_buffers():
            if name in self._buffers:
                buffer.copy_(self._buffers[name])

    def fault(self, loss: float, objective: float, norm: float) -> str:
        """What is wrong with a step: NOT_FINITE, SPIKE; "" for nothing. Takes a loss in that is right."""
        if not math.isfinite(objective) or not math.isfinite(norm):
            return NOT_FINITE
        p = self.state.position
        if self.spike:
            middle, deviation = self.usual()
            if len(p.recent) >= MIN_LOSSES and loss > middle + self.spike * deviation:
                return SPIKE
            p.recent = [*p.recent, loss][-RECENT_LOSSES:]
        if not self.state.settings.rolls_back:
            p.left_out_in_a_row = 0
        return ""

    def usual(self) -> tuple[float, float]:
        """The median of recent losses, and their deviation from it."""
        recent = self.state.position.recent or [0.0]
        middle = statistics.median(recent)
        deviation = DEVIATIONS_OF_NORMAL * statistics.median(abs(loss - middle) for loss in recent)
        return middle, max(deviation, MIN_DEVIATION * abs(middle))

    def answer(self, fault: str, shared: list[tuple[Batch, float]], measured: dict[str, float], units: int) -> None:
        """Record a step that is not to be taken, and go on without it or raise, as the policy says. Raises NotFinite,
        RunError."""
        state = self.state
        stops, step, place = self.policies[fault] == STOP, state.position.step + 1, ""
        if fault == NOT_FINITE:
            place = self._place_of(shared, stops)
            what = f"the {'gradient' if math.isfinite(measured['objective']) else 'loss'} is not a finite number"
            what += f"; it first appears in {place}"
        else:
            middle, deviation = self.usual()
            what = f"the loss, {measured['loss']:.4g}, is more than {self.spike:g} standard deviations"
            what += f" ({deviation:.3g}) above its median, {middle:.4g}"
        folder = self._record(fault, shared, {**measured, **({"place": place} if place else {})})
        self._forget()
        if not stops:
            self._leave_out(fault, units, folder, what)
            return
        kept = checkpoint_folders(state.folder.checkpoints)
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
        from .diagnose import NOWHERE, first_not_finite

        state = self.state
        state.weights.clear()
        if release:
            state.weights.adapters.release()
        first, weights = NOWHERE, state.weights.whole()  # ranks may part here: nothing is divided
        model = weights.model.train()
        for micro, batch, share in parts_of_rank(state.ranks, shared):
            state.seed_generators(micro)
            first = first_not_finite(model, partial(whole_loss_of, state, model, batch, share))
            if first != NOWHERE:
                break
            weights.collect()
        for rank, place in enumerate(state.ranks.each(first)):
            if place != NOWHERE:
                return f"{place}, on rank {rank}" if state.ranks.several else place
        return NOWHERE

    def _record(self, fault: str, shared: Sequence[tuple[Batch, float]], measured: Mapping[str, Any]) -> Path:
        """Write what makes the step again, and a line of the log; returns the folder."""
        state, step = self.state, self.state.position.step
        target = folder_of(state.folder.bad_batches, step)
        micro = range(state.settings.accumulate)
        about = {
            "fault": fault,
            "step": step,
            "batches": [[step, number] for number in micro],
            "policy": self.policies[fault],
            "seed": state.settings.seed,
            "shares": [share for _, share in shared],
            **measured,
        }

        def write() -> None:
            with whole_folder(target) as folder:
                save_tensors(folder / BATCH, tensors_of([batch for batch, _ in shared]))
                (folder / ABOUT).write_text(json.dumps(plain(about), indent=1) + "\n", encoding="utf-8")

        self.disk.attempt("the batch that was left out", write)
        self.disk.log(fault, **{key: value for key, value in about.items() if key not in ("fault", "shares")})
        return target

    def _leave_out(self, fault: str, units: int, folder: Path, what: str) -> None:
        """Go on without the step, as the policy says. Raises RunError where that has not helped for long."""
        state, p, policy = self.state, self.state.position, self.policies[fault]
        if p.left_out_in_a_row >= MAX_LEFT_OUT:
            since = "since the last checkpoint" if self.state.settings.rolls_back else "in a row"
            raise RunError(
                f"step {p.step + 1}: {what}; {MAX_LEFT_OUT} steps {since} were left out already, so it is not the"
                f" batches. The last is in {folder}. Begin a new run; a lower learning rate (--lr) or a longer --warmup"
                " may help"
            )
        done = "the batch is left out"
        if policy == ROLLBACK:
            done = f"back to the weights of step {self._roll_back():,}; the batches since are left out"
        state.task.memory.skip(p.step)
        p.left_out, p.left_out_in_a_row = p.left_out + 1, p.left_out_in_a_row + 1
        p.step, p.units = p.step + 1, p.units + units
        state.shown.say(f"step {p.step:,}: {what}; {done} (kept in {folder})", warning=True)

    def _roll_back(self) -> int:
        """Take up the weights of the last planned checkpoint, and what the optimizer kept. Raises RunError."""
        state = self.state
        place = folder_of(state.folder.checkpoints, state.position.anchor)
        try:
            self.saving.take(load_checkpoint(place, state.folder.identity), place)
        except CheckpointError as error:
            raise RunError(f"step {state.position.step + 1}: there is nothing to roll back to: {error}") from None
        state.weights.publish()
        return state.position.anchor


def tensors_of(batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Micro-batches as named tensors: 0.inputs.tokens, 0.targets, 0.lengths.tokens."""
    found: dict[str, Tensor] = {}
    for number, batch in enumerate(batches):
        found[f"{number}.targets"] = batch.targets.clone()
        for part in ("inputs", "lengths"):
            found |= {f"{number}.{part}.{name}": each.clone() for name, each in getattr(batch, part).items()}
    return found


def read_bad_batch(folder: Path) -> tuple[list[tuple[Batch, float]], dict[str, Any]]:
    """The micro-batches of a step that was left out, each with its share of the loss; and what is said of it.

    folder  of a run's bad-batches

    Raises CheckpointError, OSError.
    """
    about, tensors = dict(load_json(folder / ABOUT)), load_tensors(folder / BATCH)
    shared = []
    for number, share in enumerate(about["shares"]):
        inputs, lengths = (
            {name.split(".", 2)[2]: each for name, each in tensors.items() if name.startswith(f"{number}.{part}.")}
            for part in ("inputs", "lengths")
        )
        shared.append((Batch(inputs, tensors[f"{number}.targets"], lengths), float(share)))
    return shared, about
