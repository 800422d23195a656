"""Exact match and F1 of short answers, as SQuAD's scripts have them (Rajpurkar et al. 2016 for 1.1, 2018 for 2.0).

Answers are compared without case, punctuation (of ASCII), the words a, an, the, and extra spaces. F1 is that of their
words, each counted as often as in the answer that has it less often. Of several references the best counts.

Version 2.0 has questions without an answer: there, "" is right. Its script differs in one more thing: references of
which nothing is left are passed over, and answers of which nothing is left have F1 1 with each other. In 1.1 they match
exactly, but share no word.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InputError
from .measured import Measured, Numbers, check_as_many, f1, mean_of, of_sums, ratio, shared_count

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLE = re.compile(r"\b(a|an|the)\b")


def squad(
    predictions: Sequence[str], references: Sequence[Sequence[str]], unanswerable: bool | None = None
) -> list[Measured]:
    """F1 and exact match, from 0 to 100, by the rules of 1.1. Where a row has no reference, which is a question without
    an answer, the rules are those of 2.0, and the scores of rows with an answer and of those without follow.

    predictions   "" says that there is no answer
    unanswerable  True for the rules of 2.0, False for those of 1.1, whatever the rows

    Raises InputError.
    """
    check_as_many(predictions, references)
    if isinstance(references[0], str):
        raise InputError("answers have lists of references, each may be empty: [['Paris', 'in Paris'], []]")
    answerable = np.array([bool(each) for each in references])
    second = not answerable.all() if unanswerable is None else unanswerable
    if not second and not answerable.all():
        number = int(answerable.argmin()) + 1
        raise InputError(f"example {number:,} has no reference: SQuAD 1.1 has an answer to each question")
    pairs = [scores_of(*pair, second) for pair in zip(predictions, references, strict=True)]
    overlap, exact = 100 * np.array(pairs, dtype=np.float64).T
    signature = f"nrefs:{reference_counts(references)}|squad:{'2.0' if second else '1.1'}"
    scores = [mean_of("F1", signature, overlap), mean_of("exact match", signature, exact)]
    if not second:
        return scores
    return [
        *scores,
        mean_where("F1, answerable", signature, overlap, answerable),
        mean_where("exact match, answerable", signature, exact, answerable),
        mean_where("accuracy, unanswerable", signature, exact, ~answerable),
    ]


def scores_of(prediction: str, references: Sequence[str], second: bool) -> tuple[float, float]:
    """F1 and exact match of one answer, from 0 to 1, with the best of its references; `second`: by the rules of 2.0."""
    ours, theirs = normalize_answer(prediction), [normalize_answer(each) for each in references]
    if second:
        theirs = [each for each in theirs if each] or [""]
    overlaps = []
    for each in theirs:
        words, others = ours.split(), each.split()
        none = second and not (words and others)
        overlaps.append(float(words == others) if none else f1(shared_count(words, others), len(words), len(others)))
    return max(overlaps), float(ours in theirs)


def normalize_answer(answer: str) -> str:
    """What of an answer is compared: 'The "Broncos"!' -> "broncos"."""
    return " ".join(ARTICLE.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def reference_counts(references: Sequence[Sequence[Any]]) -> str:
    """The most references that a row has, as the signature says it: "1", or "1-3" where it differs."""
    least, most = (choice(map(len, references)) for choice in (min, max))
    return str(most) if least == most else f"{least}-{most}"


def mean_where(name: str, signature: str, sentences: Numbers, rows: Numbers) -> Measured:
    """The mean over some of the rows; 0 where a resample has none of them."""
    statistics = np.stack([sentences * rows, rows], axis=1)
    return of_sums(name, signature, statistics, lambda sums: ratio(sums[:, 0], sums[:, 1]), sentences)
