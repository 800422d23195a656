"""A teacher: a trained model whose probabilities a student learns beside the labels (Hinton et al. 2015, 1503.02531).

    loss = (1 - a) * labels + a * T^2 * KL(p || q),   p = softmax(teacher / T), q = softmax(student / T)

`labels` is the loss of the task as it is, KL the mean over the positions that count there, T the temperature, a the
weight. T^2 keeps the size of the gradient, which a temperature lowers by as much. Scores stay those of the labels, with
the agreement with the teacher beside them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from ..errors import ConfigError, InputError
from ..generation.steps import device_of
from ..model.transformer import evaluating
from ..words.cpu import wide
from ..words.packed import PackedRow
from .base import Batch, Memory, Progress, Scores, Task, tasks
from .kept_targets import KeptTargets
from .losses import RowTable, per_token
from .scores.measured import Measured
from .soft import Heard, Soft, SoftTargets
from .soft_loss import soft_loss

T = TypeVar("T", bound=Task)

COMPARED, SAMPLED = 1 << 14, 1 << 11  # distributions that agreement is measured by, of all and of a sample


@dataclass
class Teacher:
    """A trained model that is asked and never changed: it evaluates, and its parameters ask for no gradient.

    module       the model
    temperature  T of both softmaxes
    weight       a, the share of the soft loss in the whole
    about        what a run's manifest says of it: its folder, the hash of its weights
    inputs       what it reads, by name; none are said: all that a batch has
    lower        makes a copy in bfloat16 of a model, which answers a student that computes so; None: it stays as it is
    """

    module: nn.Module
    temperature: float
    weight: float
    about: dict[str, Any] = field(default_factory=dict)
    inputs: frozenset[str] = frozenset()
    lower: Callable[[nn.Module], nn.Module] | None = None
    _lowered: nn.Module | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.module.eval().requires_grad_(False)

    def on(self, device: torch.device, dtype: torch.dtype = torch.float32, numbers: bool = True) -> nn.Module:
        """The model on a device, to which it moves, or its copy in bfloat16.

        numbers  whether tensors have any: a copy without them is not kept for a step that has
        """
        lower = self.lower if dtype is torch.bfloat16 else None
        if device.type == "meta":
            bare = copy.deepcopy(self.module).to("meta")
            return bare if lower is None else lower(bare)
        if lower is None:
            return self.module.to(device)
        if not numbers:
            return lower(self.module)
        if self._lowered is None:
            self._lowered = lower(self.module)
            if device.type != "cpu":
                self.module.to("cpu")  # where it waits
        return self._lowered.to(device)

    def reads(self, batch: Batch) -> Batch:
        """What of a batch it reads: a student may read more."""
        if self.inputs >= batch.inputs.keys() or not self.inputs:
            return batch
        inputs, lengths = (
            {name: tensor for name, tensor in tensors.items() if name in self.inputs}
            for tensors in (batch.inputs, batch.lengths)
        )
        return replace(batch, inputs=inputs, lengths=lengths)

    @property
    def bytes(self) -> int:
        """Bytes of its weights."""
        return sum(tensor.nbytes for tensor in (*self.module.parameters(), *self.module.buffers()))


class Taught(Task):
    """A task whose loss has a teacher's probabilities in it: what `taught` adds to a task of its own class."""

    teacher: Teacher
    compared: SoftTargets
    kept: KeptTargets | None = None

    def batch(self, step: int, micro: int = 0) -> Batch:
        """With what the teacher says of it, where that is kept."""
        batch = super().batch(step, micro)  # type: ignore[safe-super]
        return batch if self.kept is None else replace(batch, said=self.kept.of(step, micro))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        teacher = self.teacher
        if not teacher.weight:
            return super().loss(model, batch)  # type: ignore[safe-super]
        student: Any = Heard(model)
        labels: Tensor = super().loss(student, batch)  # type: ignore[safe-super]
        if self.kept is None:
            said, ids = self.teacher_says(batch, student.output.dtype).logits, None
        else:
            said, ids = (batch.said[name].flatten(0, 1) for name in ("logits", "ids"))
        lengths = batch.lengths.get("tokens") if getattr(self, "pack", False) else None
        if lengths is not None:  # the student computed no padding: its output is one row of all real positions
            layout = PackedRow(lengths, batch.targets.shape[1])
            said, ids = said[layout.places], None if ids is None else ids[layout.places]
            batch = Batch({}, layout.pack(batch.targets))
        own = self.compared.soft(self, student.output, batch)
        soft = soft_loss(own.logits, said, own.weights, teacher.temperature, ids)
        return labels * (1 - teacher.weight) + soft.to(labels.dtype) * teacher.weight

    @torch.no_grad()
    def teacher_says(self, batch: Batch, dtype: torch.dtype = torch.float32) -> Soft:
        """What the teacher says of a batch, on the batch's device, to a student whose output has a type."""
        numbers = not isinstance(batch.targets, FakeTensor)
        module, read = self.teacher.on(batch.targets.device, dtype, numbers), self.teacher.reads(batch)
        return self.compared.soft(self, self.compared.output(self, module, read), batch)

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """The scores of the task, and beside them, on the first rows of the validation set:

        teacher_agreement  share of the distributions whose most probable class is the teacher's, too
        teacher_kl         nats: the mean of KL(teacher || student), both at temperature 1
        """
        scores = super().evaluate(model, progress)  # type: ignore[safe-super]
        return scores.measure(agreement(self, model, SAMPLED if self.validated else COMPARED))

    def verdict(self, scores: Mapping[str, float]) -> str:
        verdict = super().verdict(scores)  # type: ignore[safe-super]
        if "teacher_kl" not in scores:
            return verdict
        same, kl = 100 * scores["teacher_agreement"], scores["teacher_kl"]
        return f"{verdict}; the teacher says the same in {same:.1f} % (KL {kl:.3f} nats)"


def agreement(task: Taught, model: nn.Module, most: int | None = None) -> Iterator[Measured]:
    """How far a model says what its teacher says, over the first `most` distributions of a validation set; None: over
    all. Nothing where a task shows no validation batches."""
    view, table, device, seen = evaluating(model), RowTable(3), device_of(model), 0
    for batch in task.compared.held_out(task, model):
        batch = batch.to(device)
        with torch.no_grad():
            output = task.compared.output(task, view, batch)
            own, said = task.compared.soft(task, output, batch), task.teacher_says(batch, output.dtype)
            both = [wide(each.logits) for each in (own, said)]
            known = min(each.shape[-1] for each in both)
            log_q, log_p = both[0].log_softmax(-1)[:, :known], both[1][:, :known].log_softmax(-1)
            kl = torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0).sum(-1)
            same = both[0].argmax(-1) == both[1].argmax(-1)
            weights, counted = wide(own.weights), own.weights > 0
            columns = torch.stack([kl.where(counted, 0), wide(same), torch.ones_like(kl)], -1) * weights[:, None]
            rows = torch.zeros(len(batch.targets), 3, dtype=columns.dtype, device=device)
            table.add(rows.index_add(0, own.rows, columns).double())
        seen += int(counted.sum())
        if most is not None and seen >= most:
            break
    numbers = table.numbers()
    if len(numbers):
        yield per_token(numbers[:, [0, 2]], "teacher kl")
        yield per_token(numbers[:, [1, 2]], "teacher agreement")


def taught(task: T, teacher: Teacher, kept: int = 0, accumulate: int = 1) -> T:
    """A task that learns from a teacher, too: one of the same class, with the loss and the scores of `Taught`. Raises
    InputError for a task that has no logits to be compared.

    kept        of each distribution so many of the most probable classes are kept in the cache; 0: the teacher is asked
                in each step
    accumulate  micro-batches in a step, by which they are kept
    """
    kind = type(task)
    compared = check_soft(kind)
    made = copy.copy(task)
    made.__class__ = type(f"Taught{kind.__name__}", (Taught, kind), {"chunks": False})
    beside, measures = {"teacher": dict(teacher.about)}, (*task.measures, "teacher_kl", "teacher_agreement")
    own = {"teacher": teacher, "compared": compared, "beside": beside, "held_bytes": teacher.bytes}
    made.__dict__.update(own, measures=measures)
    if kept and teacher.weight:
        check_keeping(task)
        made.__dict__["kept"] = KeptTargets(task, made, kept, accumulate)
    return made


def check_keeping(task: Task) -> None:
    """Raise ConfigError for a task of which what a teacher says cannot be kept."""
    if not isinstance(task.memory, Memory):
        what = "its data are read as the run goes on, so that no batch is made ahead"
        raise ConfigError(f"teacher_kept: {what}; leave it out")
    if not check_soft(type(task)).by_place:
        what = f"{task.name} chooses other positions in each step, of which none is met again"
        raise ConfigError(f"teacher_kept: {what}; leave it out")


def check_soft(kind: type[Task]) -> SoftTargets:
    """How a task is compared with a teacher. Raises InputError for one that cannot learn from it; it names those that
    can."""
    if kind.soft_targets is None:
        can = ", ".join(name for name in tasks.names() if tasks.get(name).soft_targets)
        raise InputError(
            f"teacher: {kind.name} has no logits of classes or tokens that a teacher could say; tasks with them: {can}"
        )
    return kind.soft_targets
