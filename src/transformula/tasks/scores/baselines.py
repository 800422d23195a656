"""What needs no training: the predictions beside which every score is printed. A result below them is not a result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ...data.spelling import words_of
from ...errors import InputError
from .rouge import f1, shared, words

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")

FUNCTION = re.compile(r"^\s*(?:async\s+)?def\s+(\w+)", re.MULTILINE)

LOOKED_AT = 200
"""Among so many texts the most typical one is looked for."""


def copy(sources: Sequence[str]) -> list[str]:
    """The source as it is."""
    return list(sources)


def lead(sources: Sequence[str | Sequence[str]], sentences: int = 1) -> list[str]:
    """The first sentence (lead-1), or the first `sentences`, of each source: a text, or a list of its sentences.

    In a text a sentence ends at `.`, `!` or `?` before a space or a newline; nothing is known of abbreviations.
    """
    return [
        " ".join((SENTENCE_END.split(source.strip()) if isinstance(source, str) else list(source))[:sentences])
        for source in sources
    ]


def constant(targets: Sequence[str], count: int) -> list[str]:
    """One text for every example, `count` times: the most frequent of the training targets.

    Where none is frequent (a hundredth of them, and at least two) it is the most typical one, that with the highest
    mean F1 of words with the others, among those that are looked at (`LOOKED_AT`, evenly over the data).

    Raises InputError: no targets.
    """
    if not targets:
        raise InputError("a constant prediction is taken from the training targets, and there are none")
    text, often = Counter(targets).most_common(1)[0]
    return [text if often > max(1, len(targets) // 100) else typical(targets)] * count


def word_by_word(training_sources: Sequence[str], training_targets: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Each word of a source as the word that stood most often in its place in training; a word never seen is copied.

    A word is what stands between spaces. Only pairs of equally many words teach, as only there places are the same.
    Raises InputError where the training texts are not pairs.
    """
    if len(training_sources) != len(training_targets):
        raise InputError(
            f"{len(training_sources):,} training sources and {len(training_targets):,} targets: give those of the same"
            " pairs, in the same order"
        )
    counted: dict[str, Counter[str]] = {}
    for source, target in zip(training_sources, training_targets, strict=True):
        ours, theirs = source.split(" "), target.split(" ")
        if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                counted.setdefault(one, Counter())[other] += 1
    table = {word: beside.most_common(1)[0][0] for word, beside in counted.items()}
    return [" ".join(table.get(word, word) for word in source.split(" ")) for source in sources]


def function_name(sources: Sequence[str]) -> list[str]:
    """The name of the first function that each source defines in Python, in words: read_all_lines -> "read all lines".

    Raises InputError for a source without the line that begins with `def`.
    """
    found = []
    for number, source in enumerate(sources, 1):
        name = FUNCTION.search(source)
        if name is None:
            raise InputError(f"source {number:,} defines no function: its name in words needs the line with `def`")
        found.append(" ".join(words_of(name[1])).lower())
    return found


def typical(texts: Sequence[str]) -> str:
    """The text that shares most words with the others (mean F1)."""
    some = list(texts[:: -(-len(texts) // LOOKED_AT)])
    parted = [words(text) for text in some]
    means = [sum(f1(shared(one, other), len(one), len(other)) for other in parted) for one in parted]
    return some[means.index(max(means))]
