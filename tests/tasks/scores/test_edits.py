"""Error rates: edits by hand and by an independent recursion; corpus sums, intervals, and the order of examples."""

from __future__ import annotations

import random
from functools import cache

import pytest

from transformula.tasks.scores.edits import by_speaker_table, character_error_rate, edit_distance, word_error_rate
from transformula.tasks.scores.report import interval_of, resample, score_report


def by_recursion(one: str, other: str) -> int:
    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        same = distance(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        return min(same, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(one), len(other))


@pytest.mark.parametrize(("one", "other", "edits"), [
    ("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("abc", "abc", 0),
])  # fmt: skip
def test_edits_by_hand(one: str, other: str, edits: int) -> None:
    assert edit_distance(one, other) == edits == by_recursion(one, other)


def test_edits_by_an_independent_way() -> None:
    draw = random.Random(1)
    for _ in range(200):
        one, other = ("".join(draw.choices("abc", k=draw.randrange(9))) for _ in range(2))
        assert edit_distance(one, other) == by_recursion(one, other)


RIGHT = ["go left now", "stop", "one two three four"]
SAID = ["go left", "stop stop", "one too three for"]


def test_rates_are_of_all_words_together() -> None:
    measured = word_error_rate(SAID, RIGHT)
    assert measured.score == pytest.approx(100 * (1 + 1 + 2) / 8)
    assert measured.sentences.tolist() == pytest.approx([100 / 3, 100, 50])
    assert character_error_rate(SAID, RIGHT).score == pytest.approx(100 * (4 + 5 + 2) / (11 + 4 + 18))
    assert word_error_rate(["a a a"], ["b"]).score == 300
    assert word_error_rate(["  go   left now "], RIGHT[:1]).score == 0


def test_a_rate_has_an_interval_and_less_is_better() -> None:
    measured = word_error_rate(SAID * 20, RIGHT * 20)
    low, high = interval_of(resample(measured))
    assert low < measured.score < high and measured.beats(60) and not measured.beats(40)


def test_the_best_examples_have_the_fewest_errors() -> None:
    texts = [("", said, [right]) for said, right in zip(SAID, RIGHT, strict=True)]
    report = score_report(lambda said: [word_error_rate(said, RIGHT)], SAID, {"constant": ["stop"] * 3}, texts)
    assert [each.score for each in report.best] == pytest.approx([100 / 3, 50])
    assert [each.score for each in report.worst] == [100]
    assert "is not below" not in repr(report)


def test_speakers_with_the_most_errors_come_first() -> None:
    part = by_speaker_table(SAID, RIGHT, ["x", "y", "x"])
    assert list(part.rows.items()) == [("y", (1, 1, 1)), ("x", (2, 7, 3))]
    assert part.data[0]["word_error_rate"] == 100 and "by speaker: 2 of them" in str(part)


def test_against_jiwer() -> None:
    jiwer = pytest.importorskip("jiwer", reason="compared once with jiwer, which is no dependency")
    draw = random.Random(2)
    right = [" ".join(draw.choices("go left right stop one two".split(), k=1 + draw.randrange(6))) for _ in range(100)]
    said = [" ".join(word for word in text.split() if draw.random() > 0.2) + " go" for text in right]
    assert word_error_rate(said, right).score == pytest.approx(100 * jiwer.wer(right, said))
    assert character_error_rate(said, right).score == pytest.approx(100 * jiwer.cer(right, said))
