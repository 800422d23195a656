"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004), as F1, with the words of the Python package rouge-score."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

from .measured import Measured, References, checked, counted, mean_of
from .porter import stem as stem_of


def rouge(predictions: Sequence[str], references: References, *, stem: bool = False) -> list[Measured]:
    """ROUGE-1, ROUGE-2 and ROUGE-L: means over the examples of 100 F1.

    F1 = 2 P R / (P + R) of n-grams shared (each as often as in the text that has fewer), for ROUGE-L of the longest
    common subsequence of the whole texts, newlines or not.

    stem  words of more than three letters lose their endings (Porter): what most papers on summaries report. Off by
          default, as in rouge-score; the signature says it.

    Of several references one, that with which the example has the best ROUGE-1, counts for all three (as SciTLDR is
    scored); the signature says "best:rouge1".

    Words are runs of a-z and 0-9 in the lower-cased text, as that package has it: other letters part words, so that
    figures for languages other than English are comparable with that package's only.

    Raises InputError.
    """
    lists = checked(predictions, references)
    chosen = []
    for prediction, each in zip(predictions, lists, strict=True):
        predicted = words(prediction, stem)
        chosen.append(max((three(predicted, words(reference, stem)) for reference in each), key=lambda f1s: f1s[0]))
    several = "" if counted(lists) == "1" else "|best:rouge1"
    signature = f"nrefs:{counted(lists)}{several}|f1|stem:{'porter' if stem else 'no'}"
    return [
        mean_of(name, signature, [100 * f1s[i] for f1s in chosen])
        for i, name in enumerate(["ROUGE-1", "ROUGE-2", "ROUGE-L"])
    ]


def words(text: str, stem: bool = False) -> list[str]:
    """The words that ROUGE compares."""
    plain = re.findall("[a-z0-9]+", text.lower())
    return [stem_of(word) if len(word) > 3 else word for word in plain] if stem else plain


def three(predicted: Sequence[str], reference: Sequence[str]) -> list[float]:
    """F1 of words, of pairs of words and of the longest common subsequence, each from 0 to 1."""
    pairs = [list(pairwise(text)) for text in (predicted, reference)]
    return [
        f1(shared(predicted, reference), len(predicted), len(reference)),
        f1(shared(*pairs), len(pairs[0]), len(pairs[1])),
        f1(common_subsequence(predicted, reference), len(predicted), len(reference)),
    ]


def f1(both: int, predicted: int, reference: int) -> float:
    """2 P R / (P + R) = 2 both / (predicted + reference); 0 where nothing is shared."""
    return 2 * both / (predicted + reference) if both else 0.0


def shared(predicted: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """How many things two lists share, repeats counted."""
    return (Counter(predicted) & Counter(reference)).total()


def common_subsequence(predicted: Sequence[str], reference: Sequence[str]) -> int:
    """Length of the longest common subsequence, a row of the table of lengths in one integer's bits.

    Bit j of `row` is 0 where the length grows at word j of `predicted` (Hyyro 2004); n m / 64 machine operations.
    """
    places: dict[str, int] = {}
    for j, word in enumerate(predicted):
        places[word] = places.get(word, 0) | 1 << j
    row = every = (1 << len(predicted)) - 1
    for word in reference:
        meeting = row & places.get(word, 0)
        row = (row + meeting | row - meeting) & every
    return len(predicted) - row.bit_count()
