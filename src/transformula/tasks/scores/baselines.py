"""What needs no training: the predictions beside which every score is printed. A result below them is not a result."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import regex

from ...data.records import Record
from ...data.source_target import texts_of
from ...data.spelling import words_of
from ...data.unicode_words import WORD
from ...errors import MissingExtra
from .measured import f1, shared_count, words

Baseline = Callable[[Sequence[Record], Sequence[Record]], Any]
"""Rows of training (none where they are not known), rows -> what it predicts for the latter; None where it has nothing
to go by."""

COMPARED_TEXTS = 200  # among these the most typical one is looked for


def predicted_by(
    baselines: Mapping[str, Baseline], learned: Sequence[Record], records: Sequence[Record], notes: list[str]
) -> dict[str, Any]:
    """What each of some baselines predicts, by name; without those that have nothing to go by, and those that need a
    package that is not here, of which a note tells."""
    predictions: dict[str, Any] = {}
    for name, baseline in baselines.items():
        try:
            predictions[name] = baseline(learned, records)
        except MissingExtra as error:
            notes.append(f"the baseline {name} is left out: {error}")
    return {name: predicted for name, predicted in predictions.items() if predicted is not None}


def copy_source(learned: Sequence[Record], records: Sequence[Record]) -> list[str]:
    """The source as it is."""
    return texts_of(records, "source")


def first_sentence(learned: Sequence[Record], records: Sequence[Record]) -> list[str]:
    """The first sentence of each source (lead-1)."""
    return list(map(first_sentence_of, texts_of(records, "source")))


def first_sentence_of(text: str) -> str:
    """It ends at `.`, `!` or `?` before a space or a newline, or at what other scripts write for these; nothing is
    known of abbreviations."""
    return re.split(r"(?<=[.!?؟।።])\s+|(?<=[。！？])\s*", text.strip())[0]


def constant(learned: Sequence[Record], records: Sequence[Record]) -> list[str] | None:
    """One text for every example: the most frequent of the training targets. Where none is frequent (a hundredth of
    them, and at least two) it is the most typical one, that with the highest mean F1 of words with the others, among
    those that are looked at (`COMPARED_TEXTS`, evenly over the data)."""
    targets = texts_of(learned, "target")
    if not targets:
        return None
    text, often = Counter(targets).most_common(1)[0]
    if often <= max(1, len(targets) // 100):
        some = targets[:: -(-len(targets) // COMPARED_TEXTS)]
        parted = [words(target) for target in some]
        sums = [sum(f1(shared_count(one, other), len(one), len(other)) for other in parted) for one in parted]
        text = some[sums.index(max(sums))]
    return [text] * len(records)


def word_by_word(learned: Sequence[Record], records: Sequence[Record]) -> list[str] | None:
    """Each word of a source as the word that stood most often in its place in training; a word never seen is copied. A
    word is what stands between spaces. Only pairs of equally many words teach, as only there places are the same."""
    if not learned:
        return None
    beside: dict[str, Counter[str]] = defaultdict(Counter)
    for source, target in zip(texts_of(learned, "source"), texts_of(learned, "target"), strict=True):
        ours, theirs = source.split(" "), target.split(" ")
        if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                beside[one][other] += 1
    most_often = {word: others.most_common(1)[0][0] for word, others in beside.items()}
    return [" ".join(most_often.get(w, w) for w in source.split(" ")) for source in texts_of(records, "source")]


def function_name(learned: Sequence[Record], records: Sequence[Record]) -> list[str] | None:
    """The name of the first function that each source defines in Python, in words: read_all_lines -> "read all lines".
    None where a source has no line that begins with `def`."""
    definition = regex.compile(rf"^\s*(?:async\s+)?def\s+({WORD.pattern})", regex.MULTILINE)
    names = [definition.search(source) for source in texts_of(records, "source")]
    return [" ".join(words_of(name[1])).lower() for name in names if name] if all(names) else None


def most_frequent_label(training: Sequence[Any], labels: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The label that most training rows have, for every input; of lists of labels, the list that most have."""
    lists = not isinstance(labels[0], Hashable)
    label, _ = Counter(tuple(sorted(each)) if lists else each for each in labels).most_common(1)[0]
    return [list(label) if lists else label for _ in inputs]


def most_frequent_tag(
    training: Sequence[Sequence[str]], tags: Sequence[Sequence[str]], sentences: Sequence[Sequence[str]]
) -> list[list[str]]:
    """The tag that each token had most often in training; for a token never seen, the one that most tokens had."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tokens, its in zip(training, tags, strict=True):
        for token, tag in zip(tokens, its, strict=True):
            counts[token][tag] += 1
    unseen, _ = Counter(tag for its in tags for tag in its).most_common(1)[0]
    most_often = {token: tags.most_common(1)[0][0] for token, tags in counts.items()}
    return [[most_often.get(token, unseen) for token in tokens] for tokens in sentences]
