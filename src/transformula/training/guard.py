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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..atomic_io import whole_folder
from ..errors import CheckpointError, RunError
from ..interop.weights import load_tensors, save_tensors
from ..plain import plain
from ..runs.checkpoint import folder_of, load_checkpoint
from ..structured import load_json
from ..tasks.base import Batch

if TYPE_CHECKING:
    from .loop import Trainer

RECENT = 50  # losses that one is compared with
SETTLING = 20  # of them, before which no loss is a spike
NORMAL = 1.4826  # the standard deviation of a normal distribution, in its median absolute deviations
LEAST = 1e-3  # of the median, taken for the deviation of losses that hardly differ
MOST = 10  # steps in a row that are left out; beyond, it is not the batches that are at fault
NOT_FINITE, SPIKE = "not finite", "spike"
STOP, SKIP, ROLLBACK = "stop", "skip", "rollback"
BATCH, ABOUT = "batch.safetensors", "about.json"


class Guard:
    """Looks at each step of a trainer before the weights change."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        settings = trainer.settings
        self.policies = {NOT_FINITE: settings.on_not_finite, SPIKE: settings.on_spike}
        far = settings.spike
        self.spike = 0.0 if settings.on_spike == "continue" else far
        self.remembers = bool({SKIP, ROLLBACK} & {*self.policies.values()}) or bool(self.spike)
        self.rolls_back = ROLLBACK in self.policies.values()
        self._buffers: dict[str, Tensor] = {}

    @property
    def anchor(self) -> int | None:
        """The step to whose checkpoint a run would roll back."""
        return self.trainer.position.anchor if self.rolls_back else None

    def anchored(self) -> dict[str, int]:
        """What a checkpoint says of a run that may roll back to it."""
        return {"anchor": self.trainer.position.step, **({"left_out_in_a_row": 0} if self.rolls_back else {})}

    def set_anchor(self) -> None:
        """The checkpoint of this step was planned, and is on the disk."""
        for key, value in self.anchored().items():
            setattr(self.trainer.position, key, value)

    def remember(self) -> None:
        """Before a step: what a forward pass changes."""
        if self.remembers:
            self._buffers = {name: each.clone() for name, each in self.trainer.weights.master.named_buffers()}

    def forget(self) -> None:
        """After a step that is not to be taken: its gradients, and what its forward pass changed."""
        self.trainer.weights.clear()
        for name, buffer in self.trainer.weights.master.named_buffers():
            if name in self._buffers:
                buffer.copy_(self._buffers[name])

    def fault(self, loss: float, objective: float, norm: float) -> str:
        """What is wrong with a step: NOT_FINITE, SPIKE; "" for nothing. Takes a loss in that is right."""
        if not math.isfinite(objective) or not math.isfinite(norm):
            return NOT_FINITE
        p = self.trainer.position
        if self.spike:
            middle, deviation = self.usual()
            if len(p.recent) >= SETTLING and loss > middle + self.spike * deviation:
                return SPIKE
            p.recent = [*p.recent, loss][-RECENT:]
        if not self.rolls_back:
            p.left_out_in_a_row = 0
        return ""

    def usual(self) -> tuple[float, float]:
        """The median of recent losses, and their deviation from it."""
        recent = self.trainer.position.recent or [0.0]
        middle = statistics.median(recent)
        deviation = NORMAL * statistics.median(abs(loss - middle) for loss in recent)
        return middle, max(deviation, LEAST * abs(middle))

    def record(self, fault: str, shared: Sequence[tuple[Batch, float]], measured: Mapping[str, Any]) -> Path:
        """Write what makes the step again, and a line of the log; returns the folder."""
        trainer, step = self.trainer, self.trainer.position.step
        target = folder_of(trainer.run.bad_batches, step)
        micro = range(trainer.settings.accumulate)
        about = {
            "fault": fault,
            "step": step,
            "batches": [[step, number] for number in micro],
            "policy": self.policies[fault],
            "seed": trainer.settings.seed,
            "shares": [share for _, share in shared],
            **measured,
        }

        def write() -> None:
            with whole_folder(target) as folder:
                save_tensors(folder / BATCH, tensors_of([batch for batch, _ in shared]))
                (folder / ABOUT).write_text(json.dumps(plain(about), indent=1) + "\n", encoding="utf-8")

        trainer.disk.attempt("the batch that was left out", write)
        trainer.disk.log(fault, **{key: value for key, value in about.items() if key not in ("fault", "shares")})
        return target

    def leave_out(self, fault: str, units: int, folder: Path, what: str) -> None:
        """Go on without the step, as the policy says. Raises RunError where that has not helped for long."""
        trainer, p, policy = self.trainer, self.trainer.position, self.policies[fault]
        if p.left_out_in_a_row >= MOST:
            since = "since the last checkpoint" if self.rolls_back else "in a row"
            raise RunError(
                f"step {p.step + 1}: {what}; {MOST} steps {since} were left out already, so it is not the batches. The"
                f" last is in {folder}. Begin a new run; a lower learning rate (--lr) or a longer --warmup may help"
            )
        done = "the batch is left out"
        if policy == ROLLBACK:
            done = f"back to the weights of step {self._roll_back():,}; the batches since are left out"
        if trainer.task.memory:
            trainer.task.memory.skip(p.step)
        p.left_out, p.left_out_in_a_row = p.left_out + 1, p.left_out_in_a_row + 1
        p.step, p.units = p.step + 1, p.units + units
        trainer.shown.say(f"step {p.step:,}: {what}; {done} (kept in {folder})", warning=True)

    def _roll_back(self) -> int:
        """Take up the weights of the last planned checkpoint, and what the optimizer kept. Raises RunError."""
        trainer = self.trainer
        place = folder_of(trainer.run.checkpoints, trainer.position.anchor)
        try:
            trainer.saving.take(load_checkpoint(place, trainer.run.identity), place)
        except CheckpointError as error:
            raise RunError(f"step {trainer.position.step + 1}: there is nothing to roll back to: {error}") from None
        trainer.weights.publish()
        return trainer.position.anchor


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
