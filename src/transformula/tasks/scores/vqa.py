"""Accuracy of short answers about pictures, with the rules of VQA where several people answered (Antol et al. 2015).

one answer        100 where it is the one that is written, spaces at both ends aside
several answers   100 min(n / 3, 1) for an answer that n others gave, its mean over all sets of one annotator less

The words of answers are compared as VQA's script has them, where not all annotators wrote the same: without case, most
punctuation and articles, numbers up to ten as digits, and common contractions with their apostrophe.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...data.records import Record
from .measured import Measured, mean_of, of_sums, ratio, reference_count, reference_lists

AGREED = 3  # so many annotators who gave an answer make it right
MOST_KINDS = 12  # kinds of questions with a score of their own, the commonest; the others share one
OTHER_KINDS = "others"
MARKS = ';/[]"{}()=+\\_-><@`,?!'
PERIOD = re.compile(r"\.(?!\d)")
BETWEEN_DIGITS = re.compile(r"\d,\d")
ARTICLES = frozenset(("a", "an", "the"))
COUNTED = "zero one two three four five six seven eight nine ten".split()
NUMBERS = {"none": "0", **{word: str(number) for number, word in enumerate(COUNTED)}}
NOT = "ai are ca could did does do had has have is might must need ought sha should was were wo would".split()
PEOPLE = "somebody someone something that there they what where who why you".split()
CONTRACTED = (
    *(f"{word}n't" for word in NOT),
    *(f"{word}'ve" for word in "could might must not should they we who would you".split()),
    *(f"{word}'d" for word in (*PEOPLE, "he", "how", "it")),
    *(f"{word}'ll" for word in (*PEOPLE, "how", "it")),
    *(f"{word}'s" for word in (*PEOPLE, "he", "how", "let", "when")),
    *(f"{word}'re" for word in "they what where who why you".split()),
    "i'm", "ma'am", "o'clock", "y'all",
)  # fmt: skip
APOSTROPHES = {word.replace("'", ""): word for word in CONTRACTED}

Rule = Literal["auto", "exact", "vqa"]


class GivenAnswers(list[str]):
    """The answers to a question that annotators gave, and its kind."""

    def __init__(self, answers: Sequence[str], kind: str = "") -> None:
        super().__init__(answers)
        self.kind = kind


def picture_answers(
    predictions: Sequence[str], references: Sequence[Any], *, accuracy: Rule = "exact"
) -> list[Measured]:
    """Accuracy from 0 to 100, and that of each kind of question where these are `GivenAnswers` of several kinds. Raises
    InputError."""
    lists = reference_lists(predictions, references)
    rule = vqa_accuracy if accuracy == "vqa" else equals_one
    each = np.array([100 * rule(text, answers) for text, answers in zip(predictions, lists, strict=True)])
    signature = f"nrefs:{reference_count(lists)}|{'vqa' if accuracy == 'vqa' else 'exact|case:mixed'}"
    whole = mean_of("accuracy", signature, each)
    kinds = known_kinds([getattr(answers, "kind", "") for answers in references])
    places = {name: np.array([name == kind for kind in kinds]) for name in sorted(set(kinds))}
    return [whole, *(mean_of_some(f"accuracy, {name}", signature, each, some) for name, some in places.items() if name)]


def mean_of_some(name: str, signature: str, each: Any, some: Any) -> Measured:
    """The mean of the scores of some rows; 0 in a resample that has none of them."""
    statistics = np.stack([each * some, some], axis=1).astype(np.float64)
    return of_sums(name, signature, statistics, lambda sums: ratio(sums[:, 0], sums[:, 1]), each)


def known_kinds(kinds: Sequence[str]) -> list[str]:
    """Kinds of questions, the rarest of many as one; "" for all where there is but one."""
    counts = Counter(kinds)
    if len(counts) < 2:
        return [""] * len(kinds)
    common = {kind for kind, _ in counts.most_common(MOST_KINDS)} if len(counts) > MOST_KINDS + 1 else {*counts}
    return [(kind if kind in common else OTHER_KINDS) or OTHER_KINDS for kind in kinds]


def equals_one(prediction: str, answers: Sequence[str]) -> float:
    return float(prediction.strip() in map(str.strip, answers))


def vqa_accuracy(prediction: str, answers: Sequence[str]) -> float:
    """The mean of min(n / 3, 1) over the annotators, with n the others who gave this answer. Where a single one
    answered, that answer counts."""
    answers = [" ".join(answer.split()) for answer in answers]
    prediction = " ".join(prediction.split())
    if len(set(answers)) > 1:
        answers, prediction = [normalize_vqa(answer) for answer in answers], normalize_vqa(prediction)
    given = answers.count(prediction)
    if len(answers) == 1:
        return float(given)
    with_one_less = [min(1.0, (given - (answer == prediction)) / AGREED) for answer in answers]
    return sum(with_one_less) / len(with_one_less)


def normalize_vqa(answer: str) -> str:
    """What of an answer is compared: "The 2 dogs." -> "2 dogs", "two dogs" -> "2 dogs", "dont" -> "don't"."""
    text = answer
    for mark in MARKS:
        alone = f"{mark} " in answer or f" {mark}" in answer or BETWEEN_DIGITS.search(answer)
        text = text.replace(mark, "" if alone else " ")
    words = [NUMBERS.get(word, word) for word in PERIOD.sub("", text).lower().split()]
    return " ".join(APOSTROPHES.get(word, word) for word in words if word not in ARTICLES)


def rule_for(options: dict[str, Any], references: Sequence[Sequence[str]]) -> tuple[dict[str, Any], str]:
    """The options with the rule that "auto" stands for: VQA's where a question has answers of at least three people;
    and what a person is told of it."""
    if options.get("accuracy", "auto") != "auto":
        return options, ""
    several = any(len(each) >= AGREED for each in references)
    note = "accuracy by VQA's rule: an answer is right that three annotators gave" if several else ""
    return {**options, "accuracy": "vqa" if several else "exact"}, note


def usual_answer(learned: Sequence[Record], records: Sequence[Record]) -> list[str] | None:
    """The answer that most training questions of the same kind have; of a kind never seen, the most frequent of all."""
    return most_frequent(learned, records, [lambda row: str(row["kind"])])


def blind_answer(learned: Sequence[Record], records: Sequence[Record]) -> list[str] | None:
    """What a reader of questions alone says: the answer that most training pictures have to the same question; to one
    never asked, that of most questions with the same first words, else of the same kind."""
    keys: list[Any] = [lambda row, count=count: words_of(str(row["source"]), count) for count in (None, 3, 2)]
    return most_frequent(learned, records, [*keys, lambda row: str(row["kind"])])


def words_of(question: str, count: int | None) -> str:
    """The first words of a question."""
    return " ".join(question.lower().strip(" ?").split()[:count])


def most_frequent(learned: Sequence[Record], records: Sequence[Record], keys: Sequence[Any]) -> list[str] | None:
    """The most frequent answer of the training rows that are like a row, by the first key that one of them shares."""
    if not learned:
        return None
    counts: list[dict[str, Counter[str]]] = [defaultdict(Counter) for _ in keys]
    for row in learned:
        for key, its in zip(keys, counts, strict=True):
            its[key(row)][str(row["target"])] += 1
    every = Counter(str(row["target"]) for row in learned).most_common(1)[0][0]

    def answer(row: Record) -> str:
        found = (its[name] for key, its in zip(keys, counts, strict=True) if (name := key(row)) in its)
        best = next(found, None)
        return every if best is None else best.most_common(1)[0][0]

    return [answer(row) for row in records]
