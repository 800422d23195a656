"""What a run is at this moment: what is trained, on which data, with which settings, and how far it is.

Saving, evaluation, the guard, `fit` and the report are given it; it knows none of them.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..model.hook import hook_of
from ..runs import random_state
from ..runs.folder import RunFolder
from ..tasks.base import Batch, Task
from .adapters import Trainable
from .optimizer import Optimizer
from .parallel.world import ALONE, Ranks
from .position import Limits, Position
from .progress import Progress
from .settings import TrainingSettings
from .weights import RunningAverage, Weights

if TYPE_CHECKING:
    from ..runs.sharded_checkpoint import Saver
    from .parallel.sharded import ShardedModel


def flops_per_unit(model: nn.Module) -> float:
    """Floating-point operations of training on a token or a picture, forward and backward."""
    count = getattr(model, "flops_per_unit", None)
    return float(count()) if callable(count) else 6.0 * sum(p.numel() for p in model.parameters())


class RunState:
    """A run in progress.

    sharded        where the masters are divided among ranks: how
    average        of the weights, where one is kept: it is evaluated and saved in their place
    trained        the parameters that the optimizer changes, with their names and roles; `parameters` are their tensors
    after_step     what the model's hook of this name does
    fixed          names of the tensors that keep their values, which no checkpoint holds
    flops          operations of training on a unit
    packages       that the run loads, for the commands that it prints
    saved          the step of the last checkpoint; -1 for none
    saver          writes checkpoints of a model that is divided among ranks, in the background
    batch          the batch whose gradients are being made, and its name in words
    between_steps  whether weights, average and optimizer are those of one step
    step_seconds   a running mean of what a step takes
    """

    def __init__(
        self, task: Task, model: nn.Module, optimizer: Optimizer, settings: TrainingSettings, folder: RunFolder,
        shown: Progress, device: torch.device, trained: Trainable, ranks: Ranks = ALONE,
        sharded: ShardedModel | None = None,
    ) -> None:  # fmt: skip
        self.task, self.optimizer, self.settings, self.folder, self.shown = task, optimizer, settings, folder, shown
        self.device, self.ranks, self.sharded = device, ranks, sharded
        self.weights = Weights(model, settings.precision, trained.adapters, sharded=sharded)
        self.average = RunningAverage(model, settings.average) if settings.average else None
        self.trained = trained.parameters
        self.parameters = [parameter.tensor for parameter in trained.parameters]
        self.after_step = hook_of(getattr(model, "architecture", None), "after_step")
        self.fixed = trained.fixed if self.after_step is None else frozenset[str]()
        steps = [n for n in (settings.steps, settings.epochs and task.steps(settings.epochs)) if n]
        self.limits = Limits(min(steps, default=None), settings.tokens, settings.minutes and settings.minutes * 60)
        self.position = Position()
        self.flops, self.packages = flops_per_unit(model), folder.packages()
        self.saved = -1
        self.saver: Saver | None = None
        if sharded is not None:  # a run that may roll back does so to what stands, whenever that is written
            from ..runs.sharded_checkpoint import Saver

            self.saver = Saver(folder.checkpoints, background=not settings.rolls_back)
        self.batch: tuple[str, Batch] | None = None
        self.between_steps = True
        self.step_seconds = 0.0
        self.start_clock()

    @property
    def seconds(self) -> float:
        """Time spent on the run, in all its sittings."""
        return self.position.seconds + self.ranks.now() - self._begun

    @property
    def cpu_seconds(self) -> float:
        """Time of this process's processors spent on the run, in all its sittings: other work adds little to it."""
        return self.position.cpu_seconds + time.process_time() - self._cpu_begun

    def start_clock(self) -> None:
        """What came before is no time of training."""
        self._begun, self._cpu_begun = self.ranks.now(), time.process_time()

    def progress(self, units: int = 0) -> float:
        """The share of the run that is done; with `units`, in the middle of a step that sees so many."""
        p, half = self.position, 0.5 if units else 0.0
        seconds = self.seconds + half * self.step_seconds
        return self.limits.progress(p.step + half, p.units + half * units, seconds, p.reserve)

    @property
    def writing(self) -> bool:
        """Whether this rank is writing a checkpoint in the background."""
        return self.saver is not None and not self.saver.finished()

    @property
    def anchor(self) -> int | None:
        """The step to whose checkpoint the run would roll back."""
        return self.position.anchor if self.settings.rolls_back else None

    def anchor_fields(self) -> dict[str, int]:
        """What a checkpoint of this step says, where it is planned: the run may roll back to it."""
        return {"anchor": self.position.step, **({"left_out_in_a_row": 0} if self.settings.rolls_back else {})}

    def set_anchor(self) -> None:
        """The checkpoint of this step was planned, and is on the disk."""
        for key, value in self.anchor_fields().items():
            setattr(self.position, key, value)

    def seed_generators(self, micro: int) -> None:
        """Seed dropout and the like by (seed, step, micro-batch)."""
        key = hashlib.blake2b(f"{self.settings.seed}/{self.position.step}/{micro}".encode(), digest_size=8).digest()
        random_state.seed_torch(int.from_bytes(key, "little") >> 1)

    def evaluated_weights(self) -> AbstractContextManager[None]:
        """Within it the master holds the weights that are evaluated and kept: the running average, if there is one."""
        if self.average is None:
            return nullcontext()
        return self.weights.holding({**self.weights.numbers(), **self.average.average}, self.folder.path)

    def gather(self) -> None:
        """At the end of a run, on all ranks: hold the whole model, so that each of them can go on alone."""
        self.weights = self.weights.whole()
        self.sharded = None
