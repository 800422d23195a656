"""Labels: what tasks share whose model says to which classes a row belongs; one class, or several or none.

one      loss = mean of -log P(label | row), P = softmax of the logits; weighted by the label with `class_weights`
several  loss = mean over rows and labels of -log P(y | row), P(label) = sigmoid of its logit
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.records import Record
from ..data.splits import SplitRows
from ..errors import ConfigError, DataError, InputError, did_you_mean, nearest, setting
from ..plain import several
from .base import Batch
from .class_weights import class_weights, in_words, weighted_mean
from .cut_rows import is_cut, noted
from .label_spelling import label_notes, unseen_notes
from .predictor import Answer, Predictor, Progress
from .row_predictor import RowPredictor
from .rows import RowReader, RowTask
from .scores.calibration import calibration
from .scores.confusion import confusion, label_table
from .scores.labels import accuracy, macro_f1, micro_f1, subset_accuracy
from .scores.measured import Measured, ReportPart
from .scores.selective import FEWEST_ROWS, risk_coverage, threshold_for
from .soft import Soft, SoftTargets, soft_of
from .verb import LabelSettings, Verb

READING = ("tokenizer", "inputs", "most", "lower", "curve")  # fields of a predictor that are not what it says
ABSTAINED = "no label: the most probable one is below the threshold"
HALF = 0.5  # a label of several is given from this probability on


CLASSIFY = Verb(
    "classify",
    help="the label of a text or a picture",
    about="""\
Label texts or pictures with a trained model: arguments, the lines of a file, or those of standard input as they come. A
line in, a label out, in order. Pictures are named by their files. Of a model for pairs of texts, the two stand on one
line with a tab between.""",
    examples=(
        'transformula classify runs/reviews "A film that I will not forget."',
        "transformula classify runs/reviews --input reviews.txt --output labels.txt",
        "cat reviews.txt | transformula classify runs/reviews --scores",
        "transformula classify runs/reviews --input rows.jsonl --column text --format jsonl --n-best 3",
        "transformula classify runs/reviews --input reviews.csv --threshold 0.9 --output labels.csv",
        "transformula classify runs/digits three.png seven.png",
    ),
    settings=LabelSettings,
    answers="labels",
    ensemble=True,
)


@dataclass(frozen=True)
class Label(Answer):
    """A label (of several: all that are given, joined) with its probability, and the probabilities of all.

    abstained  there is no label, as the most probable one is below the threshold: the text is empty
    """

    labels: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    abstained: bool = False

    of_input = ("probabilities",)

    @property
    def value(self) -> str | None:
        return None if self.abstained else self.text

    @property
    def brief(self) -> dict[str, Any]:
        return {"text": self.value}

    @property
    def full(self) -> dict[str, Any]:
        return {**super().full, "text": self.value}


class OtherReader(nn.Module):
    """A model among several that answer together, which reads rows by a predictor of its own: by other tokens."""

    def __init__(self, kind: LabelPredictor, module: nn.Module) -> None:
        super().__init__()
        self.kind, self.module = kind, module


@dataclass(frozen=True)
class LabelPredictor(RowPredictor):
    """
    labels   the classes, in the order of the logits
    several  whether a row has several labels or none
    curve    how accurate it was on validation rows of which confidence: points of `risk_coverage`
    """

    labels: list[str]
    several: bool
    curve: list[Sequence[float]] = field(default_factory=list, kw_only=True)

    settings = LabelSettings
    verb = "classify"
    named = {"classes": "labels"}

    def alike(self) -> tuple[Any, ...]:
        return (*super().alike(), list(self.labels), self.several)

    def beside(self, other: Predictor, module: Any, named: str) -> Any:
        """Models that say the same labels answer together, however they read."""
        if type(self) is not type(other):
            raise InputError(f"{named}: was trained on another task; models of one task answer together")
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if item.name not in READING and mine != theirs:
                raise InputError(
                    f"{named}: its {item.name} are {theirs}, and those of the first model {mine}: models that answer"
                    " together know the same"
                )
        return module if self.alike() == other.alike() else OtherReader(other, module)

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> Sequence[Sequence[Answer]]:
        """Several models answer by the mean of their logits, each of its own tokens."""
        if settings.accuracy is not None and len(models) > 1:
            what = "several models together have other probabilities than each on its validation set"
            raise InputError(f"{setting('accuracy')}: {what}; give {setting('threshold')} instead")
        if not any(isinstance(model, OtherReader) for model in models):
            return super().predict(models, inputs, settings, progress=progress)
        readers = [(m.kind, m.module) if isinstance(m, OtherReader) else (self, m) for m in models]
        several = [kind.outputs([module], kind.encode(inputs), progress) for kind, module in readers]
        outputs = [torch.stack(each).mean(0) for each in zip(*several, strict=True)]
        return noted(self.answers(inputs, outputs, settings), is_cut(self.encode(inputs)), self.most)

    def answers(self, inputs: Sequence[Any], outputs: Sequence[Tensor], settings: Any) -> list[list[Label]]:
        if not outputs:
            return []
        logits = torch.stack([output[0] for output in outputs])
        probabilities = (logits.sigmoid() if self.several else logits.softmax(-1)).tolist()
        threshold, note = settings.threshold, ABSTAINED
        if settings.accuracy is not None:
            threshold, note = self.least(settings.accuracy)
        named = [dict(zip(self.labels, each, strict=True)) for each in probabilities]
        return [self.best(each, settings, threshold, note) for each in named]

    def calibrated(self, records: Sequence[Record], outputs: Sequence[Tensor]) -> Self:
        """With its accuracy on these records, by its confidence."""
        if self.several or not outputs:
            return self
        confidence, labels = torch.stack([output[0] for output in outputs]).softmax(-1).max(-1)
        right = [self.labels[n] == own[0] for n, own in zip(labels.tolist(), labels_of(records), strict=True)]
        return replace(self, curve=[[*point] for point in risk_coverage(confidence.tolist(), right)])

    def least(self, accuracy: float) -> tuple[float, str]:
        """The probability from which on a label is said, for this accuracy on the validation set, and what is noted
        where none is. Raises InputError where it was not reached there."""
        named = setting("accuracy", f"{accuracy:g}")
        if self.several:
            raise InputError(f"{named}: of several labels, each is given from {setting('threshold')} on: give that")
        if not self.curve:
            what = "what this model reached on its validation set was not kept, by an earlier version"
            raise InputError(f"{named}: {what}; give {setting('threshold')} instead, or train it again")
        point = threshold_for(self.curve, accuracy)
        if point is None:
            most = f"it was not reached on {FEWEST_ROWS} validation rows or more, whatever the threshold"
            raise InputError(f"{named}: {most}; ask for less, or give {setting('threshold')} instead")
        share = f"{point.right:,} of the {point.rows:,} validation rows from there on were right"
        return point.threshold, f"no label: the most probable one is below {point.threshold:.4f} ({share})"

    def best(
        self, probabilities: dict[str, float], settings: LabelSettings, threshold: float | None, note: str
    ) -> list[Label]:
        ranked = sorted(probabilities, key=lambda label: -probabilities[label])
        if self.several and settings.n_best == 1:
            least = HALF if threshold is None else threshold
            given = tuple(label for label in self.labels if probabilities[label] >= least)
            sure = min((max(p, 1 - p) for p in probabilities.values()), default=1.0)
            return [Label(", ".join(given), sure, given, probabilities)]
        if threshold is not None and probabilities[ranked[0]] < threshold:
            return [Label("", probabilities[ranked[0]], (), probabilities, abstained=True, note=note)]
        return [Label(label, probabilities[label], (label,), probabilities) for label in ranked[: settings.n_best]]


def labels_of(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """The labels of each record."""
    return [tuple(map(str, several(row["label"]))) for row in records]


def has_several(records: Sequence[Record]) -> bool:
    """Whether records have lists of labels."""
    return not isinstance(records[0]["label"], str)


def classes_of(records: Sequence[Record], several: bool, kept: Sequence[str] = ()) -> list[str]:
    """All labels of the training set, and those that are `kept`, numbers by their size, others by the alphabet. Raises
    DataError for fewer than two, or one of which rows have but one label where they might have several."""
    classes = {*kept, *(label for labels in labels_of(records) for label in labels)}
    if len(classes) < 2 - several:
        only = f"is labeled {next(iter(classes))!r}" if classes else "has no label"
        raise DataError(f"every training row {only}: there is nothing to tell apart; is it the right column?")
    numbers = all(label.lstrip("-").replace(".", "", 1).isdecimal() for label in classes)
    return sorted(classes, key=float) if numbers else sorted(classes)


def by_baseline(
    baseline: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]], *fields: str
) -> Callable[[Sequence[Record], Sequence[Record]], list[Label]]:
    """A baseline of `scores`, (inputs, labels, further inputs) -> labels of the latter, on some fields of records."""

    def inputs_of(records: Sequence[Record]) -> list[Any]:
        present = [name for name in fields if name in records[0]]
        return [row[present[0]] if len(present) == 1 else [row[name] for name in present] for row in records]

    def predict(learned: Sequence[Record], records: Sequence[Record]) -> list[Label]:
        predictions = baseline(inputs_of(learned), [row["label"] for row in learned], inputs_of(records))
        rows = [(each,) if isinstance(each, str) else tuple(each) for each in predictions]
        return [Label(", ".join(labels), 1.0, labels) for labels in rows]

    return predict


ONE_LABEL = "logits = linear(mean(x), classes)"


class LabelReader(RowReader):
    """Rows whose records have the field `label`: a text, or of several labels a list of texts."""

    def labels(self, settings: Any) -> Callable[[Record], Sequence[str]] | None:
        return (lambda row: several(row["label"])) if settings.stratify else None

    def target(self, kind: LabelPredictor, record: Record) -> Tensor:
        """() int64, the class; of several labels (classes,) float32, 1 for those of the row."""
        labels = labels_of([record])[0]
        for label in labels:
            if label not in kind.labels:
                near = did_you_mean(nearest(label, kind.labels))
                raise DataError(
                    f"{record.place}: the label {label!r} is not in the training set;{near} it has:"
                    f" {', '.join(kind.labels[:20])}"
                )
        if kind.several:
            return torch.tensor([float(label in labels) for label in kind.labels])
        return torch.tensor(kind.labels.index(labels[0]))

    def remarks(self, kind: LabelPredictor, rows: SplitRows) -> list[str]:
        return [*label_notes(labels_of(rows.training), kind.labels), *self.unseen(kind, rows.test, "the test rows")]

    def unseen(self, kind: LabelPredictor, records: Sequence[Record], named: str) -> list[str]:
        return unseen_notes(labels_of(records), kind.labels, named)

    def about(self, kind: LabelPredictor, records: Sequence[Record]) -> dict[str, str]:
        counts = Counter(label for labels in labels_of(records) for label in labels)
        return {"labels": ", ".join(f"{label} {counts[label]:,}" for label in kind.labels)}


def mistakes(answers: Sequence[Label], records: Sequence[Record]) -> ReportPart:
    """What is taken for what; of several labels, precision and recall of each."""
    references = labels_of(records)
    if has_several(records):
        return label_table([answer.labels for answer in answers], references)
    return confusion([answer.text for answer in answers], [labels[0] for labels in references])


def trust(answers: Sequence[Label], records: Sequence[Record]) -> ReportPart:
    """Whether the probabilities hold. A label that was not in training is never right."""
    known = list(answers[0].probabilities)
    probabilities = np.array([[answer.probabilities[label] for label in known] for answer in answers])
    right = np.array([[label in labels for label in known] for labels in labels_of(records)])
    if not has_several(records):
        right = np.where(right.any(axis=1), right.argmax(axis=1), -1)
    return calibration(probabilities, right)


def weights_of(settings: Any, kind: LabelPredictor, records: Sequence[Record]) -> Tensor | None:
    """The weights of the classes, by the training rows; None where the settings state none. Raises ConfigError."""
    if settings.class_weights is None:
        return None
    if kind.several:
        what = "with --several a row has any number of labels, and no class of its own"
        raise ConfigError(f"class_weights: {what}; leave it out")
    return class_weights(settings.class_weights, kind.labels, [label for (label,) in labels_of(records)])


def soft_labels(task: LabelTask, output: Tensor, batch: Batch) -> Soft:
    """The classes of each row, weighted as in the loss; of several labels each is one of two classes, yes and no."""
    logits, targets = output[:, 0], batch.targets
    if task.data.kind.several:
        return soft_of(torch.stack([logits, torch.zeros_like(logits)], -1), torch.ones_like(targets))
    ones = torch.ones(len(targets), device=targets.device)
    return soft_of(logits, ones if task.weights is None else task.weights.to(targets.device)[targets])


class LabelTask(RowTask):
    """A task that gives rows labels: what its predictor says of classes, and its records call `label`."""

    verb = CLASSIFY
    parts = (mistakes, trust)
    confident = True
    soft_targets = SoftTargets(lambda task, model: task.data.validation.batches(), lambda *given: soft_labels(*given))
    measures = ("loss", "accuracy", "macro_f1", "micro_f1", "subset_accuracy")
    higher = frozenset(measures[1:])

    def __init__(self, settings: Any, numbers: Mapping[str, Any], **given: Any) -> None:
        super().__init__(settings, numbers, **given)
        self.score = "micro_f1" if self.data.kind.several else "accuracy"
        self.widths = {len(self.data.kind.labels): ONE_LABEL}
        self.weights = weights_of(settings, self.data.kind, self.data.source.training)
        if (weights := self.weights) is not None:
            self.terms = lambda targets: float(weights[targets.cpu()].sum())
            self.data.notes.append(f"class weights in the loss: {in_words(self.data.kind.labels, weights)}")

    def describe(self) -> dict[str, Any]:
        about = super().describe()
        if self.weights is not None:
            about["class_weights"] = in_words(self.data.kind.labels, self.weights)
        return about

    def objective(self, output: Tensor, batch: Batch) -> Tensor:
        if output.shape[1] != 1:
            raise InputError(
                f"{self.name}: a row has one label, and the model's output stands at {output.shape[1]} positions:"
                f" {setting('output', ONE_LABEL)}"
            )
        logits, targets = output[:, 0], batch.targets
        if self.data.kind.several:
            return F.binary_cross_entropy_with_logits(logits, targets)
        smoothing = self.data.settings.label_smoothing
        if self.weights is None:
            return F.cross_entropy(logits, targets, label_smoothing=smoothing)
        each = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
        return weighted_mean(each, targets, self.weights)

    @classmethod
    def measure(cls, answers: Sequence[Label], records: Sequence[Record]) -> list[Measured]:
        references, labels = labels_of(records), [answer.labels for answer in answers]
        if has_several(records):
            return [micro_f1(labels, references), macro_f1(labels, references), subset_accuracy(labels, references)]
        return [accuracy([answer.text for answer in answers], [each[0] for each in references]),
                macro_f1(labels, references)]  # fmt: skip
