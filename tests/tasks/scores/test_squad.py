"""Answers: SQuAD's two definitions, case by case, and where they differ."""

from __future__ import annotations

import numpy as np
import pytest

from transformula.errors import InputError
from transformula.tasks.scores.report import resample
from transformula.tasks.scores.squad import normalize_answer, squad

# prediction, references, F1 and exact match of it
CASES: list[tuple[str, list[str], float, float]] = [
    ("Denver Broncos", ["Denver Broncos", "Denver Broncos", "Denver Broncos"], 1, 1),
    ("the Denver  Broncos.", ["Denver Broncos"], 1, 1),
    ("DENVER", ["Denver Broncos"], 2 * 1 * 0.5 / 1.5, 0),
    ("Santa Clara, California", ["Levi's Stadium", "Santa Clara"], 2 * (2 / 3) * 1 / (5 / 3), 0),
    ("one two two", ["two two two two"], 2 * (2 / 3) * 0.5 / (2 / 3 + 0.5), 0),
    ("gold-plated", ["gold plated"], 0, 0),  # punctuation is taken out, and leaves no space
    ("50%", ["$50"], 1, 1),
    ("a cat an owl", ["cat owl"], 1, 1),
    ("theory", ["ory"], 0, 0),
    ("Beyoncé", ["Beyonce"], 0, 0),
    ("“gold”", ["gold"], 0, 0),  # quotation marks outside of ASCII stay
    ("", ["gold"], 0, 0),
    ("no", ["yes"], 0, 0),
]


def test_what_is_compared() -> None:
    assert normalize_answer(' The\t"Broncos"!\n of  an  A-team ') == "broncos of ateam"
    assert normalize_answer("a-b the.end A.") == "ab theend"


@pytest.mark.parametrize("version", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_answers_that_both_versions_score_alike(case, version) -> None:
    prediction, references, overlap, exact = case
    f1, match, *_ = squad([prediction], [references], unanswerable=version)
    assert (f1.score, match.score) == pytest.approx((100 * overlap, 100 * exact))


def test_where_the_versions_differ() -> None:
    """Nothing is left of "The" and "a"; the reference "!" is passed over in 2.0."""

    def scores(prediction: str, references: list[str], version: bool) -> list[float]:
        return [each.score for each in squad([prediction], [references], unanswerable=version)[:2]]

    assert scores("The", ["a"], False) == [0, 100] and scores("The", ["a"], True) == [100, 100]
    assert scores("", ["!", "cat"], False) == [0, 100] and scores("", ["!", "cat"], True) == [0, 0]


def test_questions_without_an_answer() -> None:
    predictions = ["", "gold", "Denver", "", "the"]
    references = [[], [], ["Denver Broncos"], ["gold"], []]
    found = {each.name: each for each in squad(predictions, references)}
    assert {name: each.score for name, each in found.items()} == pytest.approx(
        {
            "F1": 100 * (1 + 0 + 2 / 3 + 0 + 1) / 5,
            "exact match": 100 * 2 / 5,
            "F1, answerable": 100 * (2 / 3) / 2,
            "exact match, answerable": 0,
            "accuracy, unanswerable": 100 * 2 / 3,
        }
    )
    assert found["F1"].signature == "nrefs:0-1|squad:2.0"
    drawn = np.random.default_rng(5).integers(5, size=(4, 5))
    expected = [squad([predictions[i] for i in rows], [references[i] for i in rows], True) for rows in drawn]
    for place, each in enumerate(found.values()):
        np.testing.assert_allclose(resample(each, 4, seed=5), [scores[place].score for scores in expected])


def test_version_1_is_the_rule_where_all_have_an_answer() -> None:
    found = squad(["a cat", "dog"], [["cat"], ["dogs", "dog"]])
    assert [(each.name, each.score, each.signature) for each in found] == [
        ("F1", 100, "nrefs:1-2|squad:1.1"),
        ("exact match", 100, "nrefs:1-2|squad:1.1"),
    ]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="2 predictions, but references for 1"):
        squad(["a", "b"], [["a"]])
    with pytest.raises(InputError, match="example 2 has no reference"):
        squad(["a", "b"], [["a"], []], unanswerable=False)
    with pytest.raises(InputError, match="lists of references"):
        squad(["a"], ["a"])  # type: ignore[list-item]
