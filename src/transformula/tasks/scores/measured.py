"""A score as a function of how often each example counts, so that a bootstrap never looks at an example again.

Most are functions of sums: BLEU of a thousand sentences is one of ten (matches and totals of n-grams, two lengths).

BLEU and chrF are sacrebleu's (Post 2018, "A call for clarity in reporting BLEU scores"); ROUGE-1, ROUGE-2 and ROUGE-L
(Lin 2004) are F1, with the words of the Python package rouge-score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from ...data.unicode_words import SIGNS, UNSPACED, UNSPACED_SIGN
from ...errors import InputError
from ...extras import need
from ...plain import several

Numbers = NDArray[np.float64]
References = Sequence[str | Sequence[str]]  # for each example its reference, or several of them

APART = rf"a-z0-9_\p{{Latin}}{UNSPACED}"  # what is no part of a word of other scripts
WORD = regex.compile(
    rf"[a-z0-9]+|{UNSPACED_SIGN}|(?![{APART}])(?:(?!\p{{Common}})\p{{L}}|\p{{Nd}})(?:(?![{APART}])[{SIGNS}])*"
)


@dataclass(frozen=True)
class Measured:
    """A score of predictions against references.

    name       as it is printed: "BLEU"
    signature  how it was computed, in the way of sacrebleu: "nrefs:1|case:mixed|..."
    value      counts (draws, examples), how often each draw has each example -> scores (draws,)
    sentences  (examples,): the score of each example alone
    digits     as it is printed: 1 of a score from 0 to 100, 3 of one from 0 to 1
    higher     whether a higher score is better
    """

    name: str
    signature: str
    value: Callable[[Numbers], Numbers] = field(repr=False)
    sentences: Numbers = field(repr=False)
    digits: int = 1
    higher: bool = True

    @property
    def key(self) -> str:
        """The name among the scores of an evaluation: "macro_f1" of "macro F1"."""
        return re.sub("[ ,-]+", "_", self.name.lower())

    @property
    def score(self) -> float:
        return float(self.value(np.ones((1, len(self))))[0])

    def beats(self, other: float) -> bool:
        """Whether the score is better than another one of its kind."""
        return self.score > other if self.higher else self.score < other

    def __len__(self) -> int:
        return len(self.sentences)


class ReportPart:
    """What a report has beside its scores, such as a table of mistakes: `str` of it is for people, `data` for programs;
    `svg` is its picture, None for none."""

    name: str
    data: Any

    @property
    def svg(self) -> str | None:
        return None


def of_sums(
    name: str, signature: str, statistics: Numbers, value: Callable[[Numbers], Numbers], sentences: Numbers,
    **shown: Any,
) -> Measured:  # fmt: skip
    """A score that is a function of sums: statistics (examples, numbers), what each example adds; value: sums of them
    (draws, numbers) -> scores (draws,). `shown` are further fields of `Measured`."""
    return Measured(name, signature, lambda counts: value(counts @ statistics), sentences, **shown)


def mean_of(name: str, signature: str, sentences: Sequence[float] | NDArray[Any], **shown: Any) -> Measured:
    """A score that is the mean of the examples' scores; `shown` are further fields of `Measured`."""
    each = np.asarray(sentences, dtype=np.float64)
    return Measured(name, signature, lambda counts: counts @ each / counts.sum(axis=-1), each, **shown)


def share_of_sums(
    name: str, signature: str, part: Sequence[float] | Numbers, whole: Sequence[float] | Numbers, sentences: Numbers
) -> Measured:
    """100 times the sum over examples of `part` as a share of that of `whole`, (examples,) both; 0 of nothing."""
    statistics = np.stack([part, whole], axis=1).astype(np.float64)
    return of_sums(name, signature, statistics, lambda sums: 100 * ratio(sums[:, 0], sums[:, 1]), sentences)


def ratio(above: Numbers, below: Numbers) -> Numbers:
    """above / below; 0 where `below` is 0."""
    return np.divide(above, below, out=np.zeros_like(above, dtype=np.float64), where=below != 0)


def exact_match(predictions: Sequence[str], references: References) -> Measured:
    """100 times the share of predictions that equal one of their references; spaces at both ends do not count. Raises
    InputError."""
    lists = reference_lists(predictions, references)
    equal = [100.0 * (text.strip() in map(str.strip, each)) for text, each in zip(predictions, lists, strict=True)]
    return mean_of("exact match", f"nrefs:{reference_count(lists)}|case:mixed", equal)


def reference_lists(predictions: Sequence[str], references: References) -> list[list[str]]:
    """The references as lists. Raises InputError where there are none, or not as many as predictions."""
    check_as_many(predictions, references)
    lists = [several(each) for each in references]
    if [] in lists:
        number = lists.index([]) + 1
        raise InputError(f"example {number:,} has no reference: give at least one, or leave the example out")
    return lists


def check_as_many(predictions: Sequence[Any] | Numbers, references: Sequence[Any] | Numbers) -> None:
    """Raise InputError unless there are as many references as predictions, and some."""
    if isinstance(predictions, str) or isinstance(references, str):
        raise InputError("scores take a list of predictions and a list of references, not one text")
    if len(predictions) != len(references):
        raise InputError(
            f"{len(predictions):,} predictions, but references for {len(references):,}: scores take as many of both, "
            "in the same order"
        )
    if not len(predictions):
        raise InputError("no predictions to score: give at least one")


def reference_count(references: Sequence[Sequence[str]]) -> str:
    """How many references an example has, as signatures say it: "1", or "var" where it differs."""
    counts = {len(each) for each in references}
    return str(counts.pop()) if len(counts) == 1 else "var"


def bleu(
    predictions: Sequence[str], references: References, *, lowercase: bool = False, tokenize: str = "13a"
) -> Measured:
    """Corpus BLEU-4 of plain (not tokenized) text: BP (p1 p2 p3 p4)^(1/4), 100 at most.

    p_n is the share of the predictions' n-grams that a reference has too, each counted as often as in that reference;
    BP = exp(1 - r/c) where the predictions' c words are fewer than the r of the references of nearest length. An order
    without a match is smoothed as NIST's script does (1/2, 1/4, ... of a match).

    Cased by default, as is reported today. `lowercase=True` is nearest to what older papers print for data such as
    Multi30k; their text was tokenized by Moses' script, not by `tokenize`, so that the last tenths may differ. The
    score of one example leaves out the orders for which it is too short ("effective order").

    Raises MissingExtra without sacrebleu, InputError.
    """
    # "force": a text that ends in " ." is no reason for a warning in the middle of a training run
    options = {"lowercase": lowercase, "tokenize": tokenize, "force": True}
    metrics = need("sacrebleu", "BLEU").metrics
    name = "BLEU lower-cased" if lowercase else "BLEU"
    alone = metrics.BLEU(**options, effective_order=True)
    return by_sacrebleu(metrics.BLEU(**options), alone, name, predictions, references)


def chrf(predictions: Sequence[str], references: References) -> Measured:
    """chrF2 (Popovic 2015): 100 (1 + b^2) P R / (b^2 P + R), with b = 2.

    P and R are the means over n = 1 to 6 of the shares of n-grams of characters (spaces left out, case kept) of the
    predictions that the references have, and the other way; an order that one side lacks is left out. Of several
    references, each example takes the one with which it scores best.

    Raises MissingExtra without sacrebleu, InputError.
    """
    metric = need("sacrebleu", "chrF").metrics.CHRF()
    return by_sacrebleu(metric, metric, "chrF2", predictions, references)


def by_sacrebleu(metric: Any, alone: Any, name: str, predictions: Sequence[str], references: References) -> Measured:
    """A score by a metric of sacrebleu, and by another one for single examples: counts of n-grams, which are summed."""
    lists = reference_lists(predictions, references)
    columns = [[each[i] if i < len(each) else None for each in lists] for i in range(max(map(len, lists)))]
    statistics = np.asarray(metric._extract_corpus_statistics(predictions, columns), dtype=np.float64)

    def value(sums: Numbers, by: Any = metric) -> Numbers:
        scores: Numbers = np.apply_along_axis(lambda row: by._compute_score_from_stats(row.tolist()).score, -1, sums)
        return np.minimum(scores, 100.0)  # by rounding, the best may have a little more

    # the signature last: the metric knows how many references there are once it has seen them
    return of_sums(name, str(metric.get_signature()), statistics, value, value(statistics, alone))


def rouge(predictions: Sequence[str], references: References, *, stem: bool = False) -> list[Measured]:
    """ROUGE-1, ROUGE-2 and ROUGE-L: means over the examples of 100 F1.

    F1 = 2 P R / (P + R) of n-grams shared (each as often as in the text that has fewer), for ROUGE-L of the longest
    common subsequence of the whole texts, newlines or not.

    stem  words of more than three letters lose their endings (Porter): what most papers on summaries report. Off by
          default, as in rouge-score; the signature says it.

    Of several references one, that with which the example has the best ROUGE-1, counts for all three (as SciTLDR is
    scored); the signature says "best:rouge1".

    Words of Latin script are runs of a-z and 0-9 in the lower-cased text, as that package has it: other letters of this
    script part words. Of other scripts, of which that package reads nothing, words are those of Unicode, and each sign
    of a script without blanks is one (Chinese, Japanese, Thai, ...).

    Raises InputError.
    """
    lists = reference_lists(predictions, references)
    chosen = []
    for prediction, each in zip(predictions, lists, strict=True):
        predicted = words(prediction, stem)
        chosen.append(max((rouge_f1s(predicted, words(reference, stem)) for reference in each), key=lambda f1s: f1s[0]))
    several = "" if reference_count(lists) == "1" else "|best:rouge1"
    signature = f"nrefs:{reference_count(lists)}{several}|f1|stem:{'porter' if stem else 'no'}"
    columns = zip(("ROUGE-1", "ROUGE-2", "ROUGE-L"), zip(*chosen, strict=True), strict=True)
    return [mean_of(name, signature, [100 * each for each in f1s]) for name, f1s in columns]


def words(text: str, stem: bool = False) -> list[str]:
    """The words that ROUGE compares."""
    plain: list[str] = WORD.findall(text.lower())
    if not stem:
        return plain
    from .porter import stem as stem_of

    return [stem_of(word) if len(word) > 3 and word.isascii() else word for word in plain]


def rouge_f1s(predicted: Sequence[str], reference: Sequence[str]) -> list[float]:
    """F1 of words, of pairs of words and of the longest common subsequence, each from 0 to 1."""
    pairs = [list(pairwise(text)) for text in (predicted, reference)]
    return [
        f1(shared_count(predicted, reference), len(predicted), len(reference)),
        f1(shared_count(*pairs), len(pairs[0]), len(pairs[1])),
        f1(common_subsequence(predicted, reference), len(predicted), len(reference)),
    ]


def f1(both: int, predicted: int, reference: int) -> float:
    """2 P R / (P + R) = 2 both / (predicted + reference); 0 where nothing is shared."""
    return 2 * both / (predicted + reference) if both else 0.0


def shared_count(predicted: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """How many things two lists share, repeats counted."""
    return (Counter(predicted) & Counter(reference)).total()


def common_subsequence(predicted: Sequence[str], reference: Sequence[str]) -> int:
    """Length of the longest common subsequence, a row of the table of lengths in one integer's bits. Bit j of `row` is
    0 where the length grows at word j of `predicted` (Hyyro 2004); n m / 64 machine operations."""
    places: dict[str, int] = {}
    for j, word in enumerate(predicted):
        places[word] = places.get(word, 0) | 1 << j
    row = every = (1 << len(predicted)) - 1
    for word in reference:
        meeting = row & places.get(word, 0)
        row = (row + meeting | row - meeting) & every
    return len(predicted) - row.bit_count()
