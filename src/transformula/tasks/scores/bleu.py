"""BLEU and chrF, by sacrebleu (Post 2018, "A call for clarity in reporting BLEU scores").

Counts and signatures are sacrebleu's; only the last step, from sums of counts to a score, is done here too, for many
sums at once (a bootstrap has a thousand).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...extras import need
from .measured import Measured, Numbers, References, checked

ORDER = 4
"""The longest n-grams of words that BLEU counts."""

BETA = 2
"""In chrF, recall counts so many times as much as precision."""


def bleu(
    predictions: Sequence[str], references: References, *, lowercase: bool = False, tokenize: str = "13a"
) -> Measured:
    """Corpus BLEU-4 of plain (not tokenized) text: BP (p1 p2 p3 p4)^(1/4), 100 at most.

    p_n is the share of the predictions' n-grams that a reference has too, each counted as often as in that reference;
    BP = exp(1 - r/c) where the predictions' c words are fewer than the r of the references of nearest length. An order
    without a match is smoothed as NIST's script does (1/2, 1/4, ... of a match).

    Cased by default: what is reported today. `lowercase=True` is nearest to what older papers print for data such as
    Multi30k: BLEU of tokenized, lower-cased text. Theirs was tokenized by Moses' script before training, and is
    counted here on the plain text by `tokenize`, so that the last tenths may differ; the signature says which it was.
    The score of one example leaves out the orders for which it is too short ("effective order").

    Raises MissingExtra without sacrebleu, InputError.
    """
    # "force": a text that ends in " ." is no reason for a warning in the middle of a training run
    metric = need("sacrebleu", "BLEU").metrics.BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    statistics = statistics_of(metric, predictions, references)
    name = "BLEU lower-cased" if lowercase else "BLEU"
    alone = bleu_of(statistics, effective_order=True)
    return Measured(name, str(metric.get_signature()), statistics, bleu_of, alone)


def bleu_of(sums: Numbers, effective_order: bool = False) -> Numbers:
    """BLEU from sums of (words, words of the references, matches of 1 to 4 words, n-grams of 1 to 4): (..., 10)."""
    predicted, reference = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2 : 2 + ORDER], sums[..., 2 + ORDER :]
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(predicted < reference, np.where(predicted > 0, np.exp(1 - reference / predicted), 0.0), 1.0)
        # the k-th order without a match counts as 2^-k of one; beyond the longest n-gram nothing counts
        missed = np.cumsum((matches == 0) & (totals > 0), axis=-1)
        precisions = np.where(matches > 0, matches, 0.5**missed) / totals
        logarithms = np.where(totals > 0, np.log(precisions), 0.0 if effective_order else -np.inf)
        orders = (totals > 0).sum(axis=-1) if effective_order else ORDER
        mean = logarithms.sum(axis=-1) / orders
        return np.where(matches.sum(axis=-1) > 0, 100 * penalty * np.exp(mean), 0.0)


def chrf(predictions: Sequence[str], references: References) -> Measured:
    """chrF2 (Popovic 2015): 100 (1 + b^2) P R / (b^2 P + R), with b = 2.

    P and R are the means over n = 1 to 6 of the shares of n-grams of characters (spaces left out, case kept) of the
    predictions that the references have, and the other way; an order that one side lacks is left out. Of several
    references, each example takes the one with which it scores best.

    Raises MissingExtra without sacrebleu, InputError.
    """
    metric = need("sacrebleu", "chrF").metrics.CHRF(beta=BETA)
    statistics = statistics_of(metric, predictions, references)
    return Measured(f"chrF{BETA}", str(metric.get_signature()), statistics, chrf_of, chrf_of(statistics))


def chrf_of(sums: Numbers) -> Numbers:
    """chrF from sums of, for each order, the n-grams of the predictions, of the references and of both: (..., 18)."""
    predicted, reference, both = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    counted = (predicted > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(counted, both / predicted, 0.0).sum(axis=-1) / orders
        recall = np.where(counted, both / reference, 0.0).sum(axis=-1) / orders
        score = 100 * (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)
    return np.where(precision + recall > 0, score, 0.0)


def statistics_of(metric: Any, predictions: Sequence[str], references: References) -> Numbers:
    """What each example adds to a metric of sacrebleu, which knows afterwards how many references there are."""
    lists = checked(predictions, references)
    columns = [[each[i] if i < len(each) else None for each in lists] for i in range(max(map(len, lists)))]
    return np.asarray(metric._extract_corpus_statistics(predictions, columns), dtype=np.float64)
