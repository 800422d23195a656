"""A score and what it is made of: a few numbers for each example, whose sum says the score of all of them.

BLEU of a thousand sentences is a function of ten sums (matches and totals of n-grams, two lengths). So whatever asks
for the score of some of the examples, such as a bootstrap, adds rows up and never looks at text again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

Numbers = NDArray[np.float64]

References = Sequence[str | Sequence[str]]
"""For each example its reference, or several of them."""


@dataclass(frozen=True)
class Measured:
    """A score of predictions against references, from 0 to 100: higher is better.

    name        as it is printed: "BLEU"
    signature   how it was computed, in the way of sacrebleu: "nrefs:1|case:mixed|..."
    statistics  (examples, numbers): what each example adds
    value       sums of statistics (..., numbers) -> scores (...)
    sentences   (examples,): the score of each example alone
    """

    name: str
    signature: str
    statistics: Numbers = field(repr=False)
    value: Callable[[Numbers], Numbers] = field(repr=False)
    sentences: Numbers = field(repr=False)

    @property
    def score(self) -> float:
        """The score of all examples."""
        return float(self.value(self.statistics.sum(axis=0)))

    def __len__(self) -> int:
        return len(self.statistics)


def mean_of(name: str, signature: str, sentences: Sequence[float]) -> Measured:
    """A score that is the mean of the examples' scores: two sums, theirs and their number."""
    each = np.asarray(sentences, dtype=np.float64)
    statistics = np.stack([each, np.ones_like(each)], axis=1)
    return Measured(name, signature, statistics, lambda sums: sums[..., 0] / sums[..., 1], each)


def exact_match(predictions: Sequence[str], references: References) -> Measured:
    """100 times the share of predictions that equal one of their references; spaces at both ends do not count.

    Raises InputError.
    """
    lists = checked(predictions, references)
    equal = [100.0 * (text.strip() in map(str.strip, each)) for text, each in zip(predictions, lists, strict=True)]
    return mean_of("exact match", f"nrefs:{counted(lists)}|case:mixed", equal)


def checked(predictions: Sequence[str], references: References) -> list[list[str]]:
    """The references as lists. Raises InputError where there are none, or not as many as predictions."""
    if isinstance(predictions, str) or isinstance(references, str):
        raise InputError("scores take a list of predictions and a list of references, not one text")
    if len(predictions) != len(references):
        raise InputError(
            f"{len(predictions):,} predictions, but references for {len(references):,}: scores take as many of both, "
            "in the same order"
        )
    if not predictions:
        raise InputError("no predictions to score: give at least one")
    lists = [[each] if isinstance(each, str) else list(each) for each in references]
    if [] in lists:
        number = lists.index([]) + 1
        raise InputError(f"example {number:,} has no reference: give at least one, or leave the example out")
    return lists


def counted(references: Sequence[Sequence[str]]) -> str:
    """How many references an example has, as signatures say it: "1", or "var" where it differs."""
    counts = {len(each) for each in references}
    return str(counts.pop()) if len(counts) == 1 else "var"
