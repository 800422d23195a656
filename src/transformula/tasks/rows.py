"""Tasks whose model reads a row whole and says something of it: its class, a tag for each word, a span, a vector.

    records -> encoded rows -> batches of like lengths -> the model's output -> an answer for each record

A task says which columns it reads (`read`), what a trained model needs to answer (`learn`, which makes the predictor),
its loss, and its scores. The predictor encodes rows, for training and for use alike, and turns outputs into answers. So
a prediction is the same alone and in any batch.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field, create_model
from torch import Tensor, nn

from ..data.buckets import Buckets
from ..data.preview import Preview, lengths_in_words, lengths_of, rows_under
from ..data.records import Record
from ..data.settings import Named, TestedSettings
from ..data.splits import SplitRows, read_split, row_digest, short_row
from ..data.tokenizing import choose_tokenizers
from ..errors import InputError, setting
from ..language.graph import Architecture
from ..model.dataflow import reads_any_length
from ..settings import Settings
from ..tokenizers.base import Tokenizer
from .base import EVALUATION_COST, IGNORED, Batch, Progress, Scores, Task, outputs_in_words, outputs_of
from .cut_rows import notes_of, notes_on
from .predictor import Answer
from .row_predictor import EncodedRow, RowEncoder, RowPredictor, collated, like_lengths, padded, row_outputs
from .scores.baselines import Baseline, predicted_by
from .scores.measured import Measured, ReportPart
from .scores.report import ScoreReport, score_report, standing, standing_above
from .trained import ScoredRowSettings, Trained
from .writing import load_predictor

Further = Callable[[Sequence[Any], Sequence[Record]], ReportPart]
"""The best answers to records, and these -> what a report has beside the scores."""

SHOWN_ROWS = 5  # rows that are shown to be looked at
ANY_LENGTH = "any_length"  # beside the numbers of a model's text: whether nothing learned limits how long a row is


class RowEvaluation(ScoredRowSettings):
    """How a trained model is scored, and how the rows of --data are read: by default as in training."""


def evaluation_of(settings: type[Settings], *columns: str, **more: Any) -> type[RowEvaluation]:
    """`RowEvaluation` with the settings of a task that name columns, and `more` fields, as `create_model` has them."""
    fields: dict[str, Any] = dict(more)
    for name in columns:
        about = str(settings.model_fields[name].description).partition(";")[0]
        fields[name] = (str | None, Field(None, description=f"{about}, in --data; by default as in training"))
    return create_model("RowEvaluation", __base__=RowEvaluation, **fields)


def positions_of(batch: Batch) -> int:
    """Real positions of a batch, padding left out: of its longest sequence; of pictures, how many there are."""
    sequences = {name: each for name, each in batch.inputs.items() if each.dtype == torch.int64}
    sizes = [
        int(batch.lengths[name].sum()) if name in batch.lengths else ids.shape[0] * ids.shape[1]
        for name, ids in sequences.items()
    ]
    return max(sizes, default=len(batch.targets))


class Side:
    """One split: its records, encoded, what the model should say of them, and the positions of each, (rows,).

    batch_of  makes a batch of records, their rows and targets
    owners    (rows,) the place of the record that a row is of, ascending; by default each record is one row
    """

    def __init__(
        self, records: Sequence[Record], rows: Sequence[EncodedRow], targets: Sequence[Tensor], lengths: np.ndarray,
        batch_of: Callable[..., Batch], owners: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self.records, self.rows, self.targets, self.lengths = records, rows, targets, lengths
        self.owners, self.batch_of = np.arange(len(rows)) if owners is None else owners, batch_of

    def __len__(self) -> int:
        return len(self.records)

    def batch(self, places: Sequence[int]) -> Batch:
        records = [self.records[self.owners[place]] for place in places]
        return self.batch_of(records, *([each[place] for place in places] for each in (self.rows, self.targets)))

    def batches(self) -> Iterator[Batch]:
        """All rows, those of like lengths together."""
        return (self.batch(places) for places in like_lengths(self.lengths))

    def part(self, places: np.ndarray) -> Side:
        """Some of the records, by their places, ascending."""
        kept = np.flatnonzero(np.isin(self.owners, places))
        rows, targets = [self.rows[n] for n in kept.tolist()], [self.targets[n] for n in kept.tolist()]
        owners = np.searchsorted(places, self.owners[kept])
        return Side([self.records[n] for n in places], rows, targets, self.lengths[kept], self.batch_of, owners)


class RowReader(ABC):
    """Where the rows of a task come from, and what a model learns of them. A task says:

    compared  the fields by which an evaluation row is also a training row
    together  fields that keep rows on one side of a split where they are equal; by default those
    kind      the class of the predictor, where it takes nothing from the data but its tokenizer
    default   the built-in set that is read where no data is named; "" for none
    mixed     a batch has any rows, not those of like lengths: for a loss that compares the rows of a batch
    parted    a row that is too long is read in parts, as long as rows of training; else its rest is not read
    """

    compared: tuple[str, ...] = ("text",)
    together: tuple[str, ...] = ()
    kind: type[RowEncoder]
    default: str = ""
    mixed: bool = False
    parted: bool = False

    @abstractmethod
    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> Sequence[Record]:
        """The records of some sources; `key` names these in errors. What a person is told is added to `notes`."""

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> Any:
        """The predictor: what a trained model needs to answer. `sizes` has the numbers vocab (without a tokenizer that
        which the model states, or 0) and context, and those of `numbers_of`. It takes the others that the model's text
        needs from the data."""
        return self.kind(tokenizer, list(inputs), sizes["context"], settings.lower)

    def target(self, kind: Any, record: Record) -> Tensor:
        """What the model should say of a record; 0 where the loss compares the rows of a batch. Raises DataError for
        what it cannot say."""
        return torch.tensor(0)

    def texts(self, records: Sequence[Record]) -> list[str]:
        """The texts that a tokenizer learns from, of the fields `compared` unless a task says otherwise; none where
        there are no texts."""
        values = (row.get(name) for row in records for name in self.compared)
        return [value for value in values if isinstance(value, str) and value]

    def tokenizer(self, rows: SplitRows, settings: Any, numbers: Mapping[str, Any]) -> tuple[Tokenizer | None, str]:
        """What makes tokens of texts, None where `learn` says it; and in words how, "" where there are no texts."""
        training, others = (self.texts(each) for each in (rows.training, [*rows.validation, *rows.test]))
        if not training:
            return None, ""
        if settings.lower:
            training, others = ([text.lower() for text in texts] for texts in (training, others))
        chosen, about = choose_tokenizers(settings.tokenizer, True, {"text": training}, {"text": others}, numbers)
        return chosen["text"], about.removesuffix(", both sides")

    def shown(self, record: Record) -> tuple[str, list[str]]:
        """What of a record an evaluation shows beside its answer, and the right answers that are not a part of it."""
        return short_row(record, 200), []

    def about(self, kind: Any, records: Sequence[Record]) -> dict[str, str]:
        """What else is said of the training set before training, by name."""
        return {}

    def remarks(self, kind: Any, rows: SplitRows) -> list[str]:
        """What a person is told of the rows before training, beside the notes of those who read them."""
        return []

    def unseen(self, kind: Any, records: Sequence[Record], named: str) -> list[str]:
        """Notes on what some rows, `named` so, ask for and a model cannot say, so that it counts as wrong."""
        return []

    def split(self, settings: TestedSettings) -> SplitRows:
        together = self.together or self.compared
        return read_split(settings, self.read, self.compared, together, self.default or None, self.labels(settings))

    def labels(self, settings: TestedSettings) -> Callable[[Record], Sequence[str]] | None:
        """The labels of a row, by which held-out rows are chosen; None where rows have none that repeat."""
        return None

    def side(self, kind: RowEncoder, records: Sequence[Record]) -> Side:
        rows = kind.encode([kind.input_of(record) for record in records])
        targets = [self.target(kind, record) for record in records]
        return Side(records, rows, targets, kind.lengths(rows), partial(self.batch_of, kind))

    def batch_of(
        self, kind: Any, records: Sequence[Record], rows: Sequence[EncodedRow], targets: Sequence[Tensor]
    ) -> Batch:
        """What the model reads of some rows, with the record of each, and what it should say of each."""
        inputs, lengths = collated(rows)
        return Batch(inputs, padded(targets, IGNORED), lengths)

    def answers_to(
        self, records: Sequence[Record], models: Sequence[Any], kind: Any, progress: Progress | None = None
    ) -> tuple[Any, list[Answer]]:
        """What models answer to records: as `measure` takes it, and the best answer to each."""
        inputs = [kind.input_of(record) for record in records]
        answers = [best[0] for best in kind.predict(models, inputs, kind.settings(), progress=progress)]
        return answers, answers


class RowData:
    """The data of a task, read and encoded.

    source      the records
    kind        the predictor
    training, validation   encoded
    buckets     batches of the training rows, on average of as many rows as are asked for
    numbers     what the model's text takes from the data
    about       how texts become tokens; "" where there are no texts
    """

    def __init__(
        self, reader: RowReader, settings: Any, numbers: Mapping[str, Any], inputs: Sequence[str], batch: int,
        accumulate: int, seed: int,
    ) -> None:  # fmt: skip
        self.reader, self.settings = reader, settings
        self.source = rows = reader.split(settings)
        tokenizer, self.about = reader.tokenizer(rows, settings, numbers)
        self.numbers = {key: int(n) for key, n in numbers.items() if key not in ("vocab", "context", ANY_LENGTH)}
        if self.about:
            least, most = tokenizer.vocab if tokenizer else 0, settings.max_tokens
            vocab, context = (int(numbers.get(key) or 0) for key in ("vocab", "context"))
            self.numbers |= {"vocab": max(least, vocab), "context": min(context or most, most)}
        self.kind: Any = reader.learn(rows, tokenizer, self.numbers, settings, inputs)
        self.notes = [*rows.notes, *reader.remarks(self.kind, rows)]
        self.training = reader.side(self.kind, rows.training)
        lengths = self.training.lengths
        whole = numbers.get(ANY_LENGTH) and not reader.parted  # the context is then all that is read of a row
        if self.about and numbers.get("context") is None and not whole:
            self.numbers["context"] = int(lengths.max())
            self.kind = replace(self.kind, most=int(lengths.max()))
        self.validation = reader.side(self.kind, rows.validation)
        if self.about:
            for name, side in (("training", self.training), ("validation", self.validation)):
                self.notes += notes_on(side.rows, name, self.kind.most, settings.max_tokens)
        lengths = np.ones_like(lengths) if reader.mixed else lengths
        budget = max(round(batch * float(lengths.mean())), int(lengths.max()))
        self.buckets = Buckets({"tokens": lengths}, budget, counted="filled", accumulate=accumulate, seed=seed)


class RowTask(Task):
    """A task on rows. A task says:

    reader     where the rows come from
    trivial    the baselines, by name
    parts      what a report has beside the scores, such as what is taken for what
    confident  whether the score of an answer is its probability
    digits     of the main score, where it is said in words
    """

    unit = "tokens"
    sequences = 32
    evaluation: ClassVar[type[RowEvaluation]] = RowEvaluation
    reader: ClassVar[RowReader]
    trivial: ClassVar[Mapping[str, Baseline]] = {}
    parts: ClassVar[Sequence[Further]] = ()
    confident: ClassVar[bool] = False
    digits: int = 1

    def __init__(
        self,
        settings: Any,
        numbers: Mapping[str, Any],
        *,
        inputs: Sequence[str] = ("tokens",),
        batch: int | None = None,
        accumulate: int = 1,
        seed: int = 1,
    ) -> None:
        count = batch or self.sequences or 1
        self.data = RowData(self.reader, settings, numbers, inputs, count, accumulate, seed)
        self.numbers, self.seed = self.data.numbers, seed
        self.baseline_scores: dict[str, float] | None = None
        self.calibrated: dict[str, RowPredictor] = {}  # by the last evaluation; a task on a sample shares it

    @abstractmethod
    def objective(self, output: Tensor, batch: Batch) -> Tensor:
        """The mean loss of a batch, float32: of the model's output (batch, length or 1, width)."""

    @classmethod
    @abstractmethod
    def measure(cls, answers: Any, records: Sequence[Record]) -> list[Measured]:
        """Scores of the best answers to records, the main one first."""

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        if len(outputs_of(architecture)) != 1:
            one = "logits = linear(mean(x), classes)" if "output" not in cls.model else cls.model["output"]
            raise InputError(
                f"{cls.name} needs one output; `output` makes {outputs_in_words(architecture)}. Write output: {one}, or"
                " choose a task that reads several (--task)"
            )
        if architecture.main.causal:
            raise InputError(
                f"{cls.name} reads a row whole, and the last stack is causal: each position sees those before it alone;"
                " add --family encoder"
            )

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
        """And whether nothing that the model learns limits how long a row is."""
        return {**super().numbers_of(architecture, stated), ANY_LENGTH: reads_any_length(architecture, "tokens")}

    @classmethod
    def check_data(cls, settings: Any) -> None:
        if settings.data is None and not cls.reader.default:
            raise InputError(f"no {setting('data')}: name rows to learn from, such as rows.tsv")

    def batch(self, step: int, micro: int = 0) -> Batch:
        return self.data.training.batch(self.data.buckets.rows(step, micro).tolist())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.objective(model(**batch.given).float(), batch)

    def units(self, batch: Batch) -> int:
        return positions_of(batch)

    def steps(self, epochs: float) -> int:
        return self.data.buckets.steps(epochs)

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the validation rows, or on a sample of them: `loss`, the mean over the same terms as in
        training, and the task's own."""
        side, loss, counted = self.data.validation, 0.0, 0.0

        def add_loss(batch: Batch, output: Tensor) -> None:
            nonlocal loss, counted
            terms = self.terms(batch.targets)
            loss, counted = loss + float(self.objective(output, batch)) * terms, counted + terms

        outputs = row_outputs([model], side.lengths, side.batch, progress, add_loss)
        kind: Any = self.data.kind.calibrated(side.records, outputs)
        self.calibrated["kind"] = kind
        inputs = [kind.input_of(record) for record in side.records]
        measured = self.measure([best[0] for best in kind.answers(inputs, outputs, kind.settings())], side.records)
        return Scores(loss=loss / counted).measure(measured)

    @property
    def validation_rows(self) -> int:
        return len(self.data.validation)

    def cost_of(self, rows: int) -> float:
        return EVALUATION_COST * rows * float(self.data.validation.lengths.sum()) / len(self.data.validation)

    def keep_rows(self, rows: np.ndarray) -> None:
        self.data = copy.copy(self.data)
        self.data.validation = self.data.validation.part(rows)

    def baselines(self) -> dict[str, float]:
        if self.baseline_scores is None:
            training, held_out = self.data.source.training, self.data.source.validation
            predictions = predicted_by(self.trivial, training, held_out, [])
            self.baseline_scores = {name: self.measure(each, held_out)[0].score for name, each in predictions.items()}
        return self.baseline_scores

    def verdict(self, scores: Mapping[str, float]) -> str:
        """For instance 'accuracy 81.2 on 872 validation rows: above TF-IDF (79.1) and most frequent label (50.9)'."""
        value, name = scores[self.score], f"{self.score.replace('_', ' ')} {scores[self.score]:.{self.digits}f}"
        above = partial(standing_above, digits=self.digits)
        beside = (standing if self.score in self.lower else above)(value, self.baselines())
        return f"{name} on {len(self.data.source.validation):,} validation rows: {beside}"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few validation rows with the model's answers."""
        records = self.data.source.validation
        some = [records[row] for row in np.random.default_rng(seed).permutation(len(records))[:SHOWN_ROWS]]
        _, answers = self.reader.answers_to(some, [model], self.predictor())
        return "\n".join(f"{best.text:<16} {short_row(record)}" for record, best in zip(some, answers, strict=True))

    def predictor(self) -> Any:
        return self.calibrated.get("kind", self.data.kind)

    @classmethod
    def report(
        cls, trained: Trained, data: Named, given: Mapping[str, Any], progress: Progress | None = None
    ) -> ScoreReport:
        """Scores on the test rows of its run, or on the rows named."""
        settings: Any = cls.settings.read(trained.settings_of(cls.settings))
        stated = cls.evaluation.read(given).model_dump(exclude_unset=True)
        records, learned, notes = trained.rows_to_score(cls.reader, settings, data, stated)
        kind: Any = trained.kind or load_predictor(trained.folder)
        notes += cls.reader.unseen(kind, records, "the rows")
        predictions, answers = cls.reader.answers_to(records, trained.modules, kind, progress)
        baselines = predicted_by(cls.trivial if learned else {}, learned, records, notes)
        notes += notes_of(answers, "rows")
        shown = map(cls.reader.shown, records)
        together = f"{len(trained.modules)} models, their logits averaged" if len(trained.modules) > 1 else "one model"
        return score_report(
            lambda predicted: cls.measure(predicted, records),
            predictions,
            baselines,
            [(source, best.text, right) for (source, right), best in zip(shown, answers, strict=True)],
            together,
            notes,
            [part(answers, records) for part in cls.parts],
            [answer.score for answer in answers],
            cls.confident,
        )

    def preview(self) -> Preview:
        data, source = self.data, self.data.source
        extra = self.reader.about(data.kind, source.training)
        examples = [short_row(record) for record in source.training[:SHOWN_ROWS]]
        training, validation, test = (len(each) for each in (data.training, data.validation, source.test))
        about = {"data": source.name, "training_rows": training, "validation_rows": validation, "test_rows": test}
        about |= {"tokenizer": data.about, "examples": examples, "notes": list(data.notes), **extra}
        rows = [("data", f"{source.name}: {training:,} rows to train, {validation:,} to validate, {test:,} to test")]
        if data.about:
            rows += [("tokenizer", data.about), ("lengths", lengths_in_words(lengths_of(data.training.lengths)))]
        rows += extra.items()
        return Preview(about, [*rows, *rows_under("examples", examples), *(("note", note) for note in data.notes)])

    def describe(self) -> dict[str, Any]:
        data = self.data
        digests = [row_digest(record) for side in (data.training, data.validation) for record in side.records]
        return {
            "task": self.name,
            "data": data.source.name,
            "identity": hashlib.sha256(b"".join(digests)).hexdigest()[:32],
            "training_rows": len(data.training),
            "validation_rows": len(data.validation),
            "tokenizer": data.kind.tokenizer and data.kind.tokenizer.identity,
            **data.numbers,
        }
