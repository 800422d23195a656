"""BLEU and chrF, by sacrebleu (Post 2018, "A call for clarity in reporting BLEU scores")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...extras import need
from .measured import Measured, Numbers, References, checked


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
    options = {"lowercase": lowercase, "tokenize": tokenize, "force": True}
    metrics = need("sacrebleu", "BLEU").metrics
    name = "BLEU lower-cased" if lowercase else "BLEU"
    alone = metrics.BLEU(**options, effective_order=True)
    return measured_by(metrics.BLEU(**options), alone, name, predictions, references)


def chrf(predictions: Sequence[str], references: References) -> Measured:
    """chrF2 (Popovic 2015): 100 (1 + b^2) P R / (b^2 P + R), with b = 2.

    P and R are the means over n = 1 to 6 of the shares of n-grams of characters (spaces left out, case kept) of the
    predictions that the references have, and the other way; an order that one side lacks is left out. Of several
    references, each example takes the one with which it scores best.

    Raises MissingExtra without sacrebleu, InputError.
    """
    metric = need("sacrebleu", "chrF").metrics.CHRF()
    return measured_by(metric, metric, "chrF2", predictions, references)


def measured_by(metric: Any, alone: Any, name: str, predictions: Sequence[str], references: References) -> Measured:
    """A score by a metric of sacrebleu, and by another one for single examples: counts of n-grams, which are summed."""
    lists = checked(predictions, references)
    columns = [[each[i] if i < len(each) else None for each in lists] for i in range(max(map(len, lists)))]
    statistics = np.asarray(metric._extract_corpus_statistics(predictions, columns), dtype=np.float64)

    def value(sums: Numbers, by: Any = metric) -> Numbers:
        scores: Numbers = np.apply_along_axis(lambda row: by._compute_score_from_stats(row.tolist()).score, -1, sums)
        return np.minimum(scores, 100.0)  # by rounding, the best may have a little more

    # the signature last: the metric knows how many references there are once it has seen them
    return Measured(name, str(metric.get_signature()), statistics, value, value(statistics, alone))
