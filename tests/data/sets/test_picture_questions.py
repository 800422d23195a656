"""The built-in set of pictures with questions: rows that depend on nothing, and answers that the picture bears out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from transformula.data.built_in import built_in_names
from transformula.data.records import read_records
from transformula.data.sets.picture_questions import COLORS, DRAWN, QUESTIONS, draw_picture
from transformula.errors import DataError


def colored(picture: np.ndarray) -> dict[str, int]:
    """How many points have about each color."""
    counts = {}
    for name, color in COLORS.items():
        apart = np.abs(picture.astype(np.float64) - np.array(color)[:, None, None]).max(axis=0)
        counts[name] = int((apart < 60).sum())
    return counts


@pytest.mark.parametrize("kind", DRAWN)
def test_a_picture_is_a_function_of_its_number(kind: str) -> None:
    one, its = draw_picture(kind, 5)
    again, theirs = draw_picture(kind, 5)
    other, _ = draw_picture(kind, 6)
    assert one.shape == (3, 32, 32)
    assert one.dtype == np.uint8
    assert np.array_equal(one, again)
    assert its == theirs
    assert not np.array_equal(one, other)
    assert 1 <= len(its) <= QUESTIONS
    assert len({asked[0] for asked in its}) == len(its)


def test_heights_of_bars_are_those_of_the_picture() -> None:
    checked = 0
    for number in range(60):
        picture, asked = draw_picture("bars", number)
        heights = {name: round(count / (6 * 4)) for name, count in colored(picture).items()}
        for _, question, answer in asked:
            words = question.split()
            if question.startswith("how high"):
                assert heights[words[4]] == int(answer)
                checked += 1
            elif question.startswith("is the"):
                assert (heights[words[2]] > heights[words[7]]) == (answer == "yes")
                checked += 1
            elif "tallest" in question:
                assert answer == max(heights, key=lambda name: heights[name])
                checked += 1
    assert checked > 60


def test_colors_of_shapes_and_digits_are_those_of_the_picture() -> None:
    checked = 0
    for number in range(40):
        for kind in ("shapes", "digits"):
            picture, asked = draw_picture(kind, number)
            present = colored(picture)
            for _, question, answer in asked:
                if question.startswith("what color"):
                    assert present[answer] > 5
                    checked += 1
                if question.startswith("how many") and question.split()[2] in COLORS:
                    assert (present[question.split()[2]] > 5) == (answer != "0")
                    checked += 1
    assert checked > 40


def test_answers_have_no_favorite() -> None:
    """The commonest answer of all is right seldom, and both answers to a comparison of bars are as frequent."""
    answers = Counter(answer for n in range(300) for kind in DRAWN for _, _, answer in draw_picture(kind, n)[1])
    assert answers.most_common(1)[0][1] < 0.25 * answers.total()
    compared = Counter(
        answer for n in range(600) for kind, _, answer in draw_picture("bars", n)[1] if kind == "comparison"
    )
    assert 0.4 < compared["yes"] / compared.total() < 0.6


def test_rows_of_a_picture_are_one_group() -> None:
    fields = ["image", "question", "answer", "question_type", "picture_type"]
    records = []
    for record in read_records("picture-questions:bars", fields, kinds={"image": "picture"}):
        records.append(record)
        if len(records) == 9:
            break
    assert {record.group for record in records} == {record.place.rpartition(":")[0] for record in records}
    assert {record["picture_type"] for record in records} == {"bars"}
    assert built_in_names("questions") == ["picture-questions:bars"]
    with pytest.raises(DataError, match="did you mean bars"):
        list(read_records("picture-questions:barrs", fields))
