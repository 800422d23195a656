"""Classification of texts, and of pairs of texts: sentiment, topic, entailment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from pydantic import Field

from ..data.records import Record, columns_of, read_records, unknown_column
from ..data.settings import KeptLabels, LabeledSettings, StratifiedSettings
from ..data.splits import SplitRows
from ..errors import CheckpointError, DataError, InputError
from .base import task
from .class_weights import ClassWeights
from .label_spelling import strip_labels
from .labels import LabelPredictor, LabelReader, LabelTask, by_baseline, classes_of
from .predictor import OfOthers, predictor
from .row_predictor import EncodedRow
from .rows import evaluation_of
from .scores.baselines import most_frequent_label
from .scores.linear import tfidf_linear

TEXT_COLUMNS = ("text", "sentence", "review", "content", "document", "title")  # common names of the columns
LABEL_COLUMNS = ("label", "labels", "class", "category", "tag", "topic", "intent", "sentiment")
PAIR_SEPARATOR = "\t"  # between the two texts of a line
SAMPLED_ROWS = 1000  # rows by which the column of the label is known where nothing names it


class ClassificationSettings(KeptLabels, StratifiedSettings, LabeledSettings):
    """Texts with their labels."""

    text: str | None = Field(None, description="the column of the text; by default 'text', or the one beside the label")
    text_2: str | None = Field(None, description="the column of the second text, for pairs of texts")
    label: str | None = Field(
        None, description="the column of the label; by default 'label', or of two columns that with fewer values"
    )
    several: bool = Field(False, description="a text may have several labels, or none")
    label_separator: str = Field(",", min_length=1, description="what parts the labels of a text, if not a list")
    class_weights: ClassWeights = None


@predictor("classifier")
@dataclass(frozen=True)
class Classifier(LabelPredictor):
    """pair: whether it reads two texts; None: nobody says, and it reads one or two."""

    pair: bool | None

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained, which reads a text or two. Raises CheckpointError."""
        labels, kind = model.labels, model.config.get("problem_type")
        if kind == "regression" or len(labels) == 1:
            raise CheckpointError("its output is a number of its own, not a class, and no verb reads one")
        return cls(**model.reading, labels=labels, several=kind == "multi_label_classification", pair=None)

    def input_of(self, record: Record) -> Any:
        return (record["text"], record["text_2"]) if self.pair else record["text"]

    def opened(self, inputs: Sequence[Any]) -> list[Any]:
        """Pairs of texts as they are, or as one text with a tab between."""
        if self.pair is None:
            split = [tuple(each.split(PAIR_SEPARATOR)) if isinstance(each, str) else tuple(each) for each in inputs]
            return [each[0] if len(each) == 1 else each for each in split]
        if not self.pair:
            return list(super().opened(inputs))
        pairs = [tuple(each.split(PAIR_SEPARATOR)) if isinstance(each, str) else tuple(each) for each in inputs]
        for number, each in enumerate(pairs, 1):
            if len(each) != 2 or not all(isinstance(text, str) for text in each):
                raise InputError(
                    f"source {number}: this model reads pairs of texts: put a tab between the two, or in Python give"
                    " tuples (text, text)"
                )
        return pairs

    def encode(self, inputs: Sequence[Any]) -> list[EncodedRow]:
        rows = [(each,) if isinstance(each, str) else each for each in inputs]
        ids = iter(self.texts([text for row in rows for text in row]))
        return self.joined([[next(ids) for _ in row] for row in rows])


class LabeledTexts(LabelReader):
    """Records with the fields `text`, `label` and, of pairs, `text_2`."""

    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
        columns, kinds = columns_for(sources, settings), {"label": "list"} if settings.several else {}
        records = read_records(sources, columns, kinds=kinds, like=settings.data, **settings.reading, empty="keep")
        whole = records.read_all(key, notes)
        rows = [row for row in whole if str(row["text"]).strip()]
        if not rows:
            raise DataError(f"{key}: no row has a text; is it the right column?", path=records.name)
        if len(rows) < len(whole):
            notes.append(f"{key}: {len(whole) - len(rows):,} rows have no text and are left out")
        rows = [split_labels(row, settings.label_separator) for row in rows] if settings.several else rows
        return strip_labels(rows, key, settings.several, notes)

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> Classifier:
        labels, pair = classes_of(rows.training, settings.several, settings.kept_labels), settings.text_2 is not None
        sizes["classes"] = len(labels)
        return Classifier(tokenizer, list(inputs), sizes["context"], settings.lower, labels, settings.several, pair)

    def texts(self, records: Sequence[Record]) -> list[str]:
        return [str(row[name]) for row in records for name in ("text", "text_2") if name in row]


@task("classification")
class Classification(LabelTask):
    """Texts, or pairs of texts, with labels."""

    settings = ClassificationSettings
    evaluation = evaluation_of(ClassificationSettings, "text", "text_2", "label", "label_separator")
    reader = LabeledTexts()
    others = Classifier.of_others
    trivial = {
        "most frequent label": by_baseline(most_frequent_label, "text"),
        "TF-IDF": by_baseline(tfidf_linear, "text", "text_2"),
    }
    model = {"family": "encoder", "output": "logits = linear(mean(x), classes)", "classes": "2"}


def split_labels(row: Record, separator: str) -> Record:
    """A row whose labels are a list of their own each, where they came as one text."""
    labels = row["label"]
    assert isinstance(labels, list)
    parts = labels[0].split(separator) if len(labels) == 1 else labels
    return row.changed(label=parts)


def columns_for(sources: str | list[str], settings: ClassificationSettings) -> dict[str, str | int]:
    """Which columns are the text, the second text where there is one, and the label. Raises ConfigError where nothing
    says so."""
    names, _ = columns_of(sources, **settings.reading)
    second: dict[str, str | int] = {} if settings.text_2 is None else {"text_2": settings.text_2}
    label = settings.label or next((name for name in LABEL_COLUMNS if name in names), None)
    text = settings.text or next((name for name in TEXT_COLUMNS if name in names and name != label), None)
    others = [name for name in names if name not in (text, label, settings.text_2)]
    if text is None and label is None and len(others) == 2:
        some = list(islice(read_records(sources, others, **settings.reading, empty="keep"), SAMPLED_ROWS))
        label, text = sorted(others, key=lambda name: len({str(row[name]) for row in some}))
    elif text is None and label is not None and len(others) == 1:
        text = others[0]
    elif label is None and text is not None and len(others) == 1:
        label = others[0]
    for key, column in (("text", text), ("label", label)):
        if column is None:
            raise unknown_column(key, sources, names, names[0 if key == "text" else -1])
    return {"text": str(text), **second, "label": str(label)}
