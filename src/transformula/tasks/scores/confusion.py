"""Which labels a model takes for which: tables for people, and the same as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from string import ascii_lowercase
from typing import Any

from ...cost.words import table
from .measured import ReportPart, check_as_many
from .tags import Tags, check_tags, spans_of

LISTED_LABELS = 12  # labels of a table that shows them all; of more, so many of the most confused pairs
MAX_HEAD_CHARACTERS = 8  # characters of a label that heads a column; where one has more, letters do


@dataclass(frozen=True)
class Confusion(ReportPart):
    """counts   how often rows of one label (first) were predicted to have another (second), or the same
    labels   all labels, in order"""

    labels: Sequence[str]
    counts: Counter[tuple[str, str]]

    name = "confusion"

    @property
    def data(self) -> dict[str, Any]:
        """{"labels": [...], "counts": [{"reference": ..., "predicted": ..., "rows": ...}, ...]}, most rows first."""
        return {
            "labels": list(self.labels),
            "counts": [
                {"reference": one, "predicted": other, "rows": rows} for (one, other), rows in self.counts.most_common()
            ],
        }

    def __str__(self) -> str:
        return self._whole() if len(self.labels) <= LISTED_LABELS else self._most_confused()

    def _whole(self) -> str:
        heads, names = list(self.labels), list(self.labels)
        if max(map(len, heads)) > MAX_HEAD_CHARACTERS:
            heads = list(ascii_lowercase[: len(heads)])
            names = [f"{letter}  {label}" for letter, label in zip(heads, names, strict=True)]
        rows = [["", *heads]]
        for name, one in zip(names, self.labels, strict=True):
            rows.append([name, *(f"{self.counts[one, other]:,}" for other in self.labels)])
        return "\n".join(["confusion: a row for each label, a column for what was predicted", *table(rows)])

    def _most_confused(self) -> str:
        sizes: Counter[str] = Counter()
        for (one, _), rows in self.counts.items():
            sizes[one] += rows
        wrong = [(pair, rows) for pair, rows in self.counts.most_common() if pair[0] != pair[1]][:LISTED_LABELS]
        lines = [["label", "predicted", "rows", "of the label's"]]
        lines += [[one, other, f"{rows:,}", f"{100 * rows / sizes[one]:.1f} %"] for (one, other), rows in wrong]
        return "\n".join(
            [f"confusion: the most frequent mistakes, of {len(self.labels)} labels", *table(lines, left=2)]
        )


def confusion(predicted: Sequence[str], references: Sequence[str]) -> Confusion:
    """Counts of rows by reference and prediction. Labels stand in the order of the alphabet, numbers by size. Raises
    InputError."""
    check_as_many(predicted, references)
    return Confusion(sort_labels({*predicted, *references}), Counter(zip(references, predicted, strict=True)))


def tag_confusion(predicted: Tags, references: Tags) -> Confusion:
    """Counts of tokens by reference and prediction. Raises InputError."""
    check_tags(predicted, references)
    return confusion(*([tag for tags in side for tag in tags] for side in (predicted, references)))


def sort_labels(labels: Collection[str]) -> list[str]:
    """Labels by the alphabet; where all are numbers, by size."""
    try:
        return sorted(labels, key=float)
    except ValueError:
        return sorted(labels)


@dataclass(frozen=True)
class LabelTable(ReportPart):
    """rows  of each label how many are right, predicted, and there; most frequent first"""

    rows: dict[str, tuple[int, int, int]]

    name = "labels"

    @property
    def data(self) -> dict[str, Any]:
        """{label: {"precision": ..., "recall": ..., "f1": ..., "rows": ...}}, the scores from 0 to 100."""
        return {label: {**scores_of(*numbers), "rows": numbers[2]} for label, numbers in self.rows.items()}

    def __str__(self) -> str:
        lines = [["label", "precision", "recall", "F1", "rows"]]
        for label, each in list(self.data.items())[: 2 * LISTED_LABELS]:
            lines.append([label, *(f"{each[key]:.1f}" for key in ("precision", "recall", "f1")), f"{each['rows']:,}"])
        more = len(self.rows) - 2 * LISTED_LABELS
        return "\n".join([*table(lines), *([f"... and {more:,} more labels"] if more > 0 else [])])


def scores_of(both: int, predicted: int, references: int) -> dict[str, float]:
    """Precision, recall and F1, from 0 to 100; 0 where there is nothing to divide by."""
    parts = {"precision": (both, predicted), "recall": (both, references), "f1": (2 * both, predicted + references)}
    return {name: 100 * above / below if below else 0.0 for name, (above, below) in parts.items()}


def label_table(
    predicted: Sequence[Collection[Hashable]],
    references: Sequence[Collection[Hashable]],
    label: Callable[[Any], str] = str,
) -> LabelTable:
    """Precision, recall and F1 of each label, of rows that have several. `label` says the label of what a row has,
    where that is more than a label. Raises InputError."""
    check_as_many(predicted, references)
    both, ours, theirs = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(map(set, predicted), map(set, references), strict=True):
        both.update(map(label, one & other))
        ours.update(map(label, one))
        theirs.update(map(label, other))
    names = sorted({*ours, *theirs}, key=lambda name: (-theirs[name], name))
    return LabelTable({name: (both[name], ours[name], theirs[name]) for name in names})


def entity_table(predicted: Tags, references: Tags) -> LabelTable:
    """Precision, recall and F1 of each type of span. Raises InputError."""
    check_tags(predicted, references)
    ours, theirs = ([spans_of(tags) for tags in side] for side in (predicted, references))
    return label_table(ours, theirs, attrgetter("label"))
