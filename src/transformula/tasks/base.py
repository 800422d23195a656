"""What the trainer asks of a task. It knows nothing of what stands behind: text, pairs, pictures.

A new task is one file here with a class under `@task("its-name")`:

    @task("copying")
    class Copying(Task): ...
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..data.preview import Preview
from ..errors import ConfigError, DataError, InputError, setting
from ..language.graph import Architecture
from ..registry import Registry
from ..settings import Settings
from .predictor import Predictor
from .predictor import Progress as Progress
from .scores.measured import Measured
from .scores.report import Evaluation, Report, interval_of, resample
from .soft import IGNORED as IGNORED
from .soft import SoftTargets
from .verb import Verb

if TYPE_CHECKING:
    from .trained import Trained

tasks: Registry[type[Task]] = Registry("task", "transformula.tasks", "@task(")

MIN_SAMPLE_ROWS = 16  # rows of a sample of a validation set, at least
RESAMPLES = 200  # resamples of an evaluation on the way
EVALUATED_TOKENS = 8192  # positions of a batch of an evaluation or a prediction
EVALUATION_COST = 0.5  # what a unit costs in an evaluation, of what it costs in training


def real(targets: Tensor) -> int:
    """How many of a batch's targets count."""
    return int((targets != IGNORED).sum())


def shares(counts: Sequence[float]) -> list[float]:
    """What part of all each count is; 0 where there are none."""
    whole = sum(counts) or 1
    return [count / whole for count in counts]


Shared = Callable[[Any, Sequence["Batch"]], list[tuple["Batch", float]]]
T = TypeVar("T", bound="Task")


class Memory:
    """What a task keeps from step to step, beside the model: what rows carry on, how far streams are read. Nothing,
    unless a subclass, or what has the same methods, says otherwise."""

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a checkpoint."""
        return {}

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave, and from nothing else. Raises CheckpointError."""

    def skip(self, step: int) -> None:
        """Leave a step out, as if it had not been made: leave to the step after it what it began from."""

    def news(self, step: int) -> list[str]:
        """What a step's batch was the first to find in the data, in sentences."""
        return []


def by_terms(task: Task, parts: Sequence[Batch]) -> list[tuple[Batch, float]]:
    """The parts of a step's batches, each with its share of the step's loss, by the terms over which it is a mean."""
    return list(zip(parts, shares([task.terms(part.targets) for part in parts]), strict=True))


def task(name: str, needs: Sequence[str] = (), aliases: Sequence[str] = ()) -> Callable[[type[Task]], type[Task]]:
    """Decorator that registers a task under `name`.

    needs    the optional packages that its scores need
    aliases  further names that are understood and not listed, such as an earlier spelling
    """

    def decorate(kind: type[Task]) -> type[Task]:
        kind.name = name
        check_loss(kind)
        return tasks.register(name, needs, aliases)(kind)

    return decorate


def check_loss(kind: type[Task]) -> None:
    """Raise InputError for a class whose `objective` nothing calls. A class with a loss of its own carries no
    segments, makes no logits in chunks and has none for a teacher, unless it says so: what it inherits is said of
    another loss."""
    made_by = next(base for base in kind.__mro__ if "loss" in vars(base))
    if hasattr(kind, "objective") and not hasattr(made_by, "objective"):
        raise InputError(
            f"task {kind.name!r}: nothing calls its `objective`, since the loss of {made_by.__name__} is made by its"
            " method loss(self, model, batch): override that one"
        )
    if made_by is kind:
        kind.carries, kind.chunks = (vars(kind).get(key, False) for key in ("carries", "chunks"))
        kind.soft_targets = vars(kind).get("soft_targets")


def check_task(kind: type[Task], architecture: Architecture) -> None:
    """Raise InputError for a model that a task cannot train; it names the tasks that can."""
    try:
        kind.check(architecture)
    except InputError as error:
        fitting = []
        for name in tasks.names():
            with suppress(InputError):
                tasks.get(name).check(architecture)
                fitting.append(name)
        if not fitting:
            raise
        raise InputError(f"{error}\ntasks that can train it: {', '.join(fitting)}") from None


def check_causal(name: str, architecture: Architecture) -> None:
    """Raise InputError for a model whose last stack sees the target that it should predict."""
    if not architecture.main.causal:
        raise InputError(
            f"{name} predicts each token of the target from those before it; the last stack says `causal: false` and"
            " sees the answers: take that line out"
        )


def outputs_of(architecture: Architecture) -> dict[str, int]:
    """The width of each tensor that a model returns, by its name: {"logits": 2048}. A model of one output returns it
    alone, one of several a mapping."""
    values = {**architecture.output.leaves, **architecture.output.asked}
    return {name: value.width for name, value in values.items() if value.op != "number"}


def outputs_in_words(architecture: Architecture) -> str:
    """A model's outputs, for a message: "`logits` of width 2,048 and `size` of width 1"."""
    return " and ".join(f"`{name}` of width {width:,}" for name, width in outputs_of(architecture).items())


def check_logits(name: str, architecture: Architecture) -> None:
    """Raise InputError unless a model returns one tensor, with a number for each token of the vocabulary at each
    position. How many these are is looked at once it is known: the text says `vocab`, or the data has said it."""
    outputs, vocab = list(architecture.output.leaves.values()), int(architecture.numbers["vocab"])
    known = "vocab" in architecture.text.numbers
    if len(outputs) == 1 and outputs[0].sequence and (outputs[0].width >= vocab or not known):
        return
    pooled = "" if all(value.sequence for value in outputs) else ", without positions"
    raise InputError(
        f"{name} needs one output, with a number for each of the {f'{vocab:,} ' if known else ''}tokens of the"
        f" vocabulary at each position; `output` makes {outputs_in_words(architecture)}{pooled}. Write output: logits ="
        " unembed.words(x), or leave the output out; for other outputs choose a task that reads them (--task)"
    )


def check_widths(task: Task, architecture: Architecture) -> None:
    """Raise InputError for a model whose output does not fit the data, now that they are read."""
    width = max(outputs_of(architecture).values(), default=0)
    if task.widths and width not in task.widths:
        formulas = ", or ".join(setting("output", formula) for formula in task.widths.values())
        here = f"the data has {min(task.widths)} classes, and the model's output is {width} numbers"
        raise InputError(f"{task.name}: {here}: {formulas}")


def refuse_row_count(name: str, batch: int | None) -> None:
    """Raise ConfigError for a number of rows in a batch, of a task that counts its batches in tokens."""
    if batch is not None:
        raise ConfigError(f"batch: batches of {name} are counted in tokens; say --batch-tokens instead")


def part_of(task: T, rows: np.ndarray) -> T:
    """A task that looks at these rows of its validation set alone: their numbers, in order."""
    part = copy.copy(task)
    part.keep_rows(rows)
    part.validated = f"{len(rows):,} of {task.validation_rows:,} {task.row_name}"
    return part


def sample_of(rows: int, count: int, seed: int) -> np.ndarray:
    """`count` of so many rows, chosen by the seed, in order; a larger sample holds a smaller one."""
    chosen: np.ndarray = np.sort(np.random.default_rng(seed).permutation(rows)[:count])
    return chosen


class Scores(dict[str, float]):
    """What an evaluation found, by name. "loss" is always there: nats, lower is better.

    resampled  by name: the scores of resamples of the validation rows, (RESAMPLES,), each with the same rows at every
               evaluation of as many; of a score without them nothing is known of its noise
    """

    def __init__(self, scores: Mapping[str, float] | None = None, /, **further: float) -> None:
        super().__init__(scores or {}, **further)
        self.resampled: dict[str, list[float]] = dict(getattr(scores, "resampled", {}))

    def measure(self, measured: Iterable[Measured]) -> Self:
        """Take in scores, where they are not there already, and those of resamples."""
        for each in measured:
            self.setdefault(each.key, each.score)
            self.resampled[each.key] = resample(each, RESAMPLES).tolist()
        return self

    def derive(self, name: str, of: str, value: Callable[[float], float]) -> Self:
        """Take in a score that is a function of another one, where it is not there already, and that of resamples."""
        self.setdefault(name, value(self[of]))
        self.resampled[name] = list(map(value, self.resampled[of]))
        return self

    @property
    def loss(self) -> float:
        return self["loss"]


@dataclass(frozen=True)
class Batch:
    """What a model is called with, by the names of its inputs, and what it should say.

    inputs   ids (batch, length) int64; pictures (batch, channels, height, width)
    targets  (batch, length) int64; -100 at positions that do not count
    lengths  real positions of each row, (batch,) int64, by input; an input that is not named here has no padding
    said     what a teacher says of each row, where that is kept: (batch, ...) by name

    A subclass holds what is no tensor of rows, unless it says `by_rows`: the first dimension of all that it holds is
    then the row.
    """

    inputs: Mapping[str, Tensor]
    targets: Tensor
    lengths: Mapping[str, Tensor] = field(default_factory=dict)
    said: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def by_rows(self) -> bool:
        return type(self) is Batch

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of the model's call: `model(**batch.given)`."""
        return {**self.inputs, "lengths": dict(self.lengths)} if self.lengths else dict(self.inputs)

    def to(self, device: torch.device | str) -> Batch:
        soon = torch.device(device).type == "cuda"  # on mps a copy that is not waited for may read what was freed
        inputs, lengths, said = (
            {name: tensor.to(device, non_blocking=soon) for name, tensor in tensors.items()}
            for tensors in (self.inputs, self.lengths, self.said)
        )
        targets = self.targets.to(device, non_blocking=soon)
        return replace(self, inputs=inputs, targets=targets, lengths=lengths, said=said)


class Task(ABC):
    """What a model is trained to do.

    name        by which it is registered
    unit        what is counted: "tokens"
    settings    the settings of its data
    evaluation  the settings of `report`: how a trained model is scored
    verb        the verb of the command line that uses what was trained; None for none
    others      makes the predictor of a model that others trained for this, of an `OfOthers`; None where that does not
                say all
    model       keys of a model's text that the task needs, such as its output: where a text states no output of its own
    example     an input for that verb: a text that the model knows; "" for none
    sequences   how many sequences a batch has where nothing is said; None: its batches are counted otherwise
    measures    the scores that an evaluation finds, by name
    higher      those of them of which more is better
    lower       those of which less is better, and which are no multiple of the loss
    reads       numbers of a model's text that its data depends on
    carries     whether its batches go on from step to step for a model that says `carry`
    chunks      whether its loss is made by `token_loss`, which can make logits in chunks
    terms       of targets: over how many terms the loss of a batch is a mean; of a weighted mean the sum of weights
    shared      gives each part of a step's batches its share of the step's loss: the sum of shares times `loss` is the
                loss of them all in one batch. A task whose loss is a sum of means over different terms has its own
    fits        raises InputError for a model, an `Architecture`, that cannot be trained as `settings` say
    soft_targets  how the one output of logits of which its loss is made is compared with a teacher's; None: it is not
    beside      what a run's manifest says of what it takes beside its data: a teacher
    held_bytes  of memory that it holds beside the model: a teacher's weights
    compares    whether its loss compares the rows of a batch with each other, so that no batch can be cut
    row_name    what the parts of its validation set are called of which a sample holds some
    validated   what of its validation set `evaluate` looks at, in words; "" is all
    widths      those of an output that fits the data, each with a formula that makes it; {}: any may
    resolved    settings of its data that were left to it, as it chose them: a run records these
    numbers     what the model takes from the task, e.g. {"vocab": 2048, "context": 128}
    memory      what goes from a step to the next, where a batch goes on from the one before it
    score       the main one of the scores: that of `baselines` and `verdict`, by which the best model is chosen
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "examples"
    settings: ClassVar[type[Settings]]
    evaluation: ClassVar[type[Settings]]
    verb: ClassVar[Verb | None] = None
    others: ClassVar[Any] = None
    model: ClassVar[Mapping[str, Any]] = {}
    sequences: ClassVar[int | None] = 16
    measures: tuple[str, ...] = ("loss",)
    higher: ClassVar[frozenset[str]] = frozenset()
    lower: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = ("vocab", "context")
    carries: ClassVar[bool] = False
    terms: Callable[[Tensor], float] = staticmethod(real)
    shared: ClassVar[Shared] = by_terms
    fits: Callable[[Architecture, Any], None] = staticmethod(lambda architecture, settings: None)
    compares: ClassVar[bool] = False
    chunks: ClassVar[bool] = False
    soft_targets: ClassVar[SoftTargets | None] = None
    beside: Mapping[str, Any] = {}
    held_bytes: int = 0
    row_name: ClassVar[str] = "rows"
    validated: str = ""
    widths: Mapping[int, str] = {}
    resolved: Mapping[str, Any] = {}
    score: str = "loss"
    memory: Memory = Memory()
    example: str = ""
    numbers: dict[str, int]
    seed: int

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
        """What the task reads of a model: of the numbers in `reads` those that are `stated`, and `carry`."""
        numbers = {key: int(architecture.numbers[key]) for key in cls.reads if key in stated}
        return {**numbers, "carry": architecture.carry} if cls.carries and architecture.carry else numbers

    @classmethod
    def make(cls, settings: Any, numbers: Mapping[str, Any], **given: Any) -> Self:
        """The task from its `settings`: unless a task says otherwise, the class called with the same arguments.

        numbers     those that the model's file states (vocab, context, ...), and its `carry`
        inputs      what the model reads
        batch       sequences in a micro-batch, for a task that counts these; None: as many as the task says
        accumulate  micro-batches in a step
        seed        of all chance

        Raises DataError and ConfigError.
        """
        return cls(settings, numbers, **given)  # type: ignore[call-arg]

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        """Raise InputError for a model that this task cannot train: its inputs, or what it sees. None unless said."""
        return

    @classmethod
    def check_data(cls, settings: Any) -> None:
        """Raise InputError where a run that begins names no data, and the task has none of its own."""
        return

    @classmethod
    def need(cls, settings: Any) -> None:
        """Raise MissingExtra unless every optional package is here that its scores in training and the data of
        `settings` need. Called before anything is read."""
        tasks.need(cls.name)
        settings.need()

    @abstractmethod
    def batch(self, step: int, micro: int = 0) -> Batch:
        """Micro-batch `micro` of step `step`, both from 0: a pure function of these and the seed."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean loss of a batch in nats: a scalar, float32."""

    @abstractmethod
    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the whole validation split. Leaves the model in the mode in which it was."""

    @property
    def validation_rows(self) -> int:
        """How many rows `evaluate` looks at, of a task that can look at a sample of them."""
        return 0

    def cost_of(self, rows: int) -> float:
        """What an evaluation of so many rows costs, roughly, in the time of training on so many units; 0 where it is
        not known."""
        return 0

    def evaluation_cost(self) -> int:
        """What `evaluate` costs, as `cost_of` has it."""
        return math.ceil(self.cost_of(self.validation_rows))

    def keep_rows(self, rows: np.ndarray) -> None:
        """Look at these of the rows alone from now on: their numbers, in order."""
        raise NotImplementedError

    def on_sample(self, cost: int) -> Self | None:
        """This task with a sample of its validation set whose evaluation costs at most so much: the same rows each
        time, more of them for a higher cost. Itself where that is the whole set, as it is where no cost is known; None
        where it is too few rows (fewer than MIN_SAMPLE_ROWS) to say anything."""
        if self.evaluation_cost() <= cost:
            return self
        whole = self.validation_rows
        count = bisect_right(range(whole), cost, key=lambda rows: math.ceil(self.cost_of(rows))) - 1
        if count < min(MIN_SAMPLE_ROWS, whole):
            return None
        return part_of(self, sample_of(whole, count, self.seed))

    def units(self, batch: Batch) -> int:
        """How many units a batch holds: real targets, unless a task says otherwise."""
        return real(batch.targets)

    def steps(self, epochs: float) -> int:
        """How many steps see each example so often."""
        raise ConfigError(f"epochs: {self.name} has none; give --steps, --tokens or --minutes")

    def baselines(self) -> dict[str, float]:
        """Scores of trivial models on the same data, of the kind `score`; may take seconds, is cached."""
        return {}

    @abstractmethod
    def verdict(self, scores: Mapping[str, float]) -> str:
        """The main score in words, beside the nearest baselines."""

    @abstractmethod
    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """Something the model makes, to be looked at."""

    @classmethod
    def report(
        cls, trained: Trained, data: str | list[str] | None, given: Mapping[str, Any], progress: Progress | None = None
    ) -> Report:
        """What `evaluate` says of a trained model: unless a task says otherwise, its scores on a validation split.

        data   what is scored instead of the split of its run; where the run is not known, of what a part is scored
        given  fields of `evaluation` that were said; unless a task says otherwise, these are those of `settings`

        Raises InputError and DataError.
        """
        return evaluated(task_again(cls, trained, data, given, batch=1 if cls.sequences else None), trained, progress)

    def preview(self) -> Preview | None:
        """What the data holds, printed before training: its `repr` is for people, `.data` for programs."""
        return None

    def predictor(self) -> Predictor | None:
        """What the model does that is trained, by what its folder holds; None where the weights alone are used."""
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain data for a run's manifest: hash of the data, split, sizes."""


def evaluated(task: Task, trained: Trained, progress: Progress | None = None) -> Evaluation:
    """A trained model's scores on the validation split of a task, beside the baselines."""
    scores, shown = task.evaluate(trained.alone, progress), task.preview()
    validation = "" if shown is None else f"{shown.data['validation_tokens']:,} {task.unit}"
    ends = {name: interval_of(values) for name, values in scores.resampled.items() if name in scores}
    intervals = {name: both for name, both in ends.items() if both}
    verdict = task.verdict(scores)
    return Evaluation(dict(scores), task.baselines(), verdict, validation, trained.notes, intervals=intervals)


def task_again(
    kind: type[T], trained: Trained, data: str | list[str] | None, given: Mapping[str, Any], **sizes: Any
) -> T:
    """The task by which a model was trained, with its validation split, or with `data` in the place of that.

    given  fields of the task's `settings` that were said; sizes: of its batches, as for `make`
    """
    chosen = trained.settings_of(kind.settings)
    if trained.lost:
        scored = data if data is not None else chosen.get("validation")
        if scored is None:
            raise trained.missing_data()
        chosen |= {"data": None, "validation": scored}
    elif data is not None:
        chosen["validation" if "data" in chosen else "data"] = data
    elif "data" in kind.settings.model_fields and "data" not in chosen:
        raise trained.unknown_data("--data FILE")
    own = {"tokenizer": str(trained.folder)} if "tokenizer" in kind.settings.model_fields else {}
    free = data is not None and "overlap" in kind.settings.model_fields and "overlap" not in given
    same = free and trained.was_trained_on(data)
    kept = {"overlap": "keep"}
    settings = kind.settings.read({**chosen, **(kept if same else {}), **given, **own})
    kind.check(trained.architecture)
    try:
        task = kind.make(settings, trained.numbers, **sizes)
    except DataError as error:
        if not (free and error.seen):
            raise
        same, task = True, kind.make(kind.settings.read({**chosen, **given, **kept, **own}), trained.numbers, **sizes)
    if same:
        trained.told.append(f"what is scored is the training data: {trained.seen}")
    return task
