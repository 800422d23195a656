"""Accuracy of answers about pictures: VQA's rule beside a plain count, and what questions alone tell."""

from __future__ import annotations

from itertools import combinations

import pytest

from transformula.data.records import Record
from transformula.errors import InputError
from transformula.tasks.scores.vqa import (
    MOST_KINDS,
    OTHER_KINDS,
    GivenAnswers,
    blind_answer,
    known_kinds,
    normalize_vqa,
    picture_answers,
    rule_for,
    usual_answer,
    vqa_accuracy,
)


@pytest.mark.parametrize("given", range(11))
def test_the_rule_is_the_mean_over_sets_of_nine(given: int) -> None:
    """Of ten answers so many are `yes`: the mean of min(n / 3, 1) over each nine of them."""
    answers = ["yes"] * given + ["no"] * (10 - given)
    nines = [min(1.0, nine.count("yes") / 3) for nine in combinations(answers, 9)]
    assert vqa_accuracy("yes", answers) == pytest.approx(sum(nines) / 10)


def test_known_values() -> None:
    """VQA's own script gives 0.3 for one annotator of ten, 0.6 for two, 0.9 for three, 1 for four."""
    scores = [vqa_accuracy("a b", ["a b"] * n + ["c"] * (10 - n)) for n in (0, 1, 2, 3, 4)]
    assert scores == pytest.approx([0, 0.3, 0.6, 0.9, 1.0])
    assert vqa_accuracy("one", ["one"]) == 1
    assert vqa_accuracy("two", ["one"]) == 0


@pytest.mark.parametrize(
    ("answer", "compared"),
    [
        ("The 2 dogs.", "2 dogs"),
        ("two dogs", "2 dogs"),
        ("none", "0"),
        ("Dont know", "don't know"),
        ("1,000", "1000"),
        ("red/blue", "red blue"),
        ("red, blue", "red blue"),
        ("3.5", "3.5"),
        ("an apple", "apple"),
        ("well", "well"),
        ("were", "were"),
    ],
)
def test_what_is_compared(answer: str, compared: str) -> None:
    assert normalize_vqa(answer) == compared


def test_answers_are_compared_as_written_where_all_wrote_the_same() -> None:
    assert vqa_accuracy("2", ["two"] * 10) == 0
    assert vqa_accuracy("2", ["two"] * 9 + ["three"]) == 1


def test_accuracy_by_kind_and_its_rule() -> None:
    references = [GivenAnswers(["red"], "color"), GivenAnswers(["2", "two"], "count"), GivenAnswers(["3"], "count")]
    scores = {each.name: each.score for each in picture_answers(["red ", "two", "4"], references)}
    assert scores == pytest.approx({"accuracy": 200 / 3, "accuracy, color": 100, "accuracy, count": 50})
    assert rule_for({"accuracy": "auto"}, references) == ({"accuracy": "exact"}, "")
    chosen, note = rule_for({}, [["a"] * 10])
    assert chosen == {"accuracy": "vqa"}
    assert "three annotators" in note
    assert rule_for({"accuracy": "exact"}, [["a"] * 10]) == ({"accuracy": "exact"}, "")
    with pytest.raises(InputError, match="has no reference"):
        picture_answers(["a"], [GivenAnswers([], "color")])


def test_one_kind_has_no_row_of_its_own_and_rare_kinds_share_one() -> None:
    assert [each.name for each in picture_answers(["a"], [GivenAnswers(["a"], "color")])] == ["accuracy"]
    many = [f"kind {n:02}" for n in range(MOST_KINDS + 3) for _ in range(30 - n)]
    kinds = known_kinds(many)
    assert len(set(kinds)) == MOST_KINDS + 1
    assert [kind for kind, own in zip(kinds, many, strict=True) if own == "kind 00"] == ["kind 00"] * 30
    assert {kind for kind, own in zip(kinds, many, strict=True) if own == f"kind {MOST_KINDS:02}"} == {OTHER_KINDS}


def row(question: str, answer: str, kind: str = "") -> Record:
    return Record({"source": question, "target": answer, "kind": kind})


def test_what_questions_alone_tell() -> None:
    known = [("How many cats?", "2"), ("how many cats", "2"), ("how many dogs", "3"), ("how many cats", "1")]
    learned = [*(row(*each, "count") for each in known), row("what color is it", "red", "color")]
    asked = [row("How many cats?", ""), row("how many dogs", ""), row("how many birds", "", "count")]
    asked += [row("where is it", "", "color"), row("who", "", "person")]
    assert blind_answer(learned, asked) == ["2", "3", "2", "red", "2"]
    assert usual_answer(learned, asked[2:]) == ["2", "red", "2"]
    assert blind_answer([], asked) is None
