"""BLEU, by sacrebleu (Post 2018, "A call for clarity in reporting BLEU scores").

The tokenizer, the counts of n-grams and the signature are sacrebleu's; only the last step, from sums of counts to a
score, is done here too, for many sums at once (a bootstrap has a thousand).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...extras import need
from .measured import Measured, Numbers, References, checked

ORDER = 4
"""The longest n-grams that count."""


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
    metrics = need("sacrebleu", "BLEU").metrics
    lists = checked(predictions, references)
    # "force": a text that ends in " ." is no reason for a warning in the middle of a training run
    metric = metrics.BLEU(lowercase=lowercase, tokenize=tokenize, effective_order=True, force=True)
    rows = []
    for prediction, each in zip(predictions, lists, strict=True):
        found = metric.sentence_score(prediction, each)
        rows.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
    statistics = np.asarray(rows, dtype=np.float64)
    return Measured(
        "BLEU lower-cased" if lowercase else "BLEU",
        signature_of(metrics.BLEU(lowercase=lowercase, tokenize=tokenize, force=True), lists),
        statistics,
        bleu_of,
        bleu_of(statistics, effective_order=True),
    )


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


def signature_of(metric: Any, references: Sequence[Sequence[str]]) -> str:
    """What sacrebleu says of a metric. It knows how many references there are once it has seen them, as columns."""
    # one example of each number of references says as much as all of them
    seen = list({len(each): each for each in references}.values())
    columns = [[each[i] if i < len(each) else None for each in seen] for i in range(max(map(len, seen)))]
    metric.corpus_score([""] * len(seen), columns)
    return str(metric.get_signature())
