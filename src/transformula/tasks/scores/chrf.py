"""chrF: n-grams of characters (Popovic 2015). sacrebleu's definition and signature; the counts are kept, for sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ...extras import need
from .bleu import signature_of
from .measured import Measured, Numbers, References, checked

ORDER = 6
"""The longest n-grams that count."""

BETA = 2
"""Recall counts so many times as much as precision."""


def chrf(predictions: Sequence[str], references: References) -> Measured:
    """chrF2: 100 (1 + b^2) P R / (b^2 P + R), with b = 2.

    P and R are the means over n = 1 to 6 of the shares of n-grams of characters (spaces left out, case kept) of the
    predictions that the references have, and the other way; an order that one side lacks is left out. Of several
    references, each example takes the one with which it scores best.

    Raises MissingExtra without sacrebleu, InputError.
    """
    metrics = need("sacrebleu", "chrF").metrics
    lists = checked(predictions, references)
    rows = []
    for prediction, each in zip(predictions, lists, strict=True):
        predicted = ngrams(prediction)
        found = np.asarray([counts(predicted, ngrams(reference)) for reference in each], dtype=np.float64)
        rows.append(found[int(np.argmax(chrf_of(found)))])
    statistics = np.stack(rows)
    signature = signature_of(metrics.CHRF(), lists)
    return Measured(f"chrF{BETA}", signature, statistics, chrf_of, chrf_of(statistics))


def ngrams(text: str) -> list[Counter[str]]:
    """For each order, how often each n-gram of characters occurs; spaces are left out."""
    letters = "".join(text.split())
    return [Counter(letters[i : i + n] for i in range(len(letters) - n + 1)) for n in range(1, ORDER + 1)]


def counts(predicted: Sequence[Counter[str]], reference: Sequence[Counter[str]]) -> list[int]:
    """For each order: n-grams of the prediction (0 where the reference has none), of the reference, and of both."""
    row: list[int] = []
    for ours, theirs in zip(predicted, reference, strict=True):
        both = sum(min(count, theirs[gram]) for gram, count in ours.items() if gram in theirs)
        row += [ours.total() if theirs else 0, theirs.total(), both]
    return row


def chrf_of(sums: Numbers) -> Numbers:
    """chrF from sums of `counts`: (..., 18)."""
    predicted, reference, both = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    counted = (predicted > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(counted, both / predicted, 0.0).sum(axis=-1) / orders
        recall = np.where(counted, both / reference, 0.0).sum(axis=-1) / orders
        score = 100 * (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)
    return np.where(precision + recall > 0, score, 0.0)
