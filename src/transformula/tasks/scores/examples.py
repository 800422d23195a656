"""The best and the worst predictions: what a score looks like."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...errors import InputError
from .measured import Measured, References, checked

WIDTH = 100
"""Columns of the text."""


@dataclass(frozen=True)
class Example:
    """One prediction beside its reference. `index` counts from 0; `source` is "" where none was given."""

    index: int
    score: float
    prediction: str
    references: list[str]
    source: str = ""


@dataclass(frozen=True)
class BestAndWorst:
    """The examples of the highest and of the lowest score, best and worst first. Its `repr` is the text to read."""

    name: str
    best: list[Example]
    worst: list[Example]

    @property
    def data(self) -> dict[str, Any]:
        """Plain data: {"score": name, "best": [...], "worst": [...]}."""
        return {
            "score": self.name,
            "best": [asdict(example) for example in self.best],
            "worst": [asdict(example) for example in self.worst],
        }

    def __repr__(self) -> str:
        parts = []
        for title, examples in (("best", self.best), ("worst", self.worst)):
            parts.append(f"{len(examples)} {title} by {self.name} of the single text\n")
            parts += [shown(example) for example in examples]
        return "\n".join(parts)


def best_and_worst(
    measured: Measured,
    predictions: Sequence[str],
    references: References,
    sources: Sequence[str] | None = None,
    count: int = 10,
) -> BestAndWorst:
    """The `count` examples with the highest score and those with the lowest; equal ones in the order of the data.

    No example is among both: with fewer than 2 `count` examples, the lists are shorter. Raises InputError.
    """
    lists = checked(predictions, references)
    for name, number in (("scores", len(measured)), ("sources", len(predictions if sources is None else sources))):
        if number != len(predictions):
            raise InputError(f"{number:,} {name} for {len(predictions):,} predictions: give those of the same examples")

    def example(index: int) -> Example:
        source = "" if sources is None else sources[index]
        return Example(index, float(measured.sentences[index]), predictions[index], lists[index], source)

    highest = [int(i) for i in np.argsort(-measured.sentences, kind="stable")]
    half = min(count, (len(highest) + 1) // 2)
    best = highest[:half]
    lowest = [int(i) for i in np.argsort(measured.sentences, kind="stable") if int(i) not in set(best)]
    return BestAndWorst(measured.name, [example(i) for i in best], [example(i) for i in lowest[:count]])


def shown(example: Example) -> str:
    """A few lines: number and score, then source, prediction and references, each under a name."""
    rows = [("source", example.source)] if example.source else []
    rows += [("prediction", example.prediction), *(("reference", text) for text in example.references)]
    lines = [f"example {example.index + 1:,}: {example.score:.1f}"]
    for name, text in rows:
        head = f"  {name:10}  "
        lines += textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [head + "-"]
    return "\n".join(lines) + "\n"
