"""Questions on articles, of both versions of SQuAD."""

import json
from pathlib import Path

import pytest

from transformula.data.records import read_records
from transformula.data.splits import split_records
from transformula.errors import DataError

SQUAD = Path(__file__).parents[2].parent / "shared" / "data" / "squad" / "dev-v1.1.json"
FIELDS = ["question", "context", "answers", "starts", "impossible"]
KINDS = {"answers": "list", "starts": "numbers", "impossible": "number"}


def questions(path: Path, *asked: dict, title: str = "T") -> list:
    paragraph = {"context": "Zoë 🐕 ran home. She ran fast.", "qas": list(asked)}
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": title, "paragraphs": [paragraph]}]}))
    return list(read_records(path, FIELDS, kinds=KINDS, optional=("answers", "starts")))


def test_rows_are_questions(tmp_path):
    (who, none) = questions(
        tmp_path / "a.json",
        {"id": "1", "question": "Who?", "answers": [{"text": "She", "answer_start": 16}]},
        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": []},
    )
    assert who["answers"] == ["She"] and who["starts"] == [16.0] and who["impossible"] == 0
    assert none["answers"] == [] and none["impossible"] == 1 and who.group == none.group == "T"
    assert who.place.endswith("a.json, article 1, paragraph 1, question 1")
    dropped = read_records(tmp_path / "a.json", FIELDS, kinds=KINDS)
    assert len(list(dropped)) == 1 and dropped.tally.empty["answers"] == 1


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            {"question": "?", "answers": [{"text": "ran home", "answer_start": 7}]},
            "question 1: the answer 'ran home' is not at its answer_start 7, where 'an home.' stands; it begins at 6",
        ),
        ({"question": "?", "answers": [{"text": "cat", "answer_start": 99}]}, "where '' stands; it stands nowhere"),
        ({"question": "?", "answers": [{"text": "Zoë", "answer_start": -29}]}, "not at its answer_start -29"),
        ({"question": 3, "answers": []}, "'question' is the number 3; expected a string"),
        ({"question": "?", "answers": ["Zoë"]}, "is a string; expected an object with 'text'"),
        ({"question": "?", "answers": [{"text": "Zoë"}]}, "'answer_start' is null; expected a number"),
    ],
)
def test_an_answer_stands_where_it_says(tmp_path, question, said):
    with pytest.raises(DataError) as error:
        questions(tmp_path / "a.json", question)
    assert f"{tmp_path}/a.json, article 1, paragraph 1, question 1: " in str(error.value) and said in str(error.value)


def test_what_is_no_squad(tmp_path):
    for content, said in (
        ({"data": {}}, "'data' is an object; expected a list"),
        ({"data": [{"title": "x"}]}, "article 1: 'paragraphs' is null; expected a list"),
        ({"rows": []}, "is an object; expected a list of objects.*; or, as SQuAD has it, an object with `data`"),
    ):
        (tmp_path / "a.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=said):
            list(read_records(tmp_path / "a.json"))


@pytest.mark.skipif(not SQUAD.is_file(), reason=f"the data beside the project is not here: {SQUAD}")
def test_an_article_is_on_one_side_of_a_split():
    records = list(read_records(SQUAD, FIELDS, kinds=KINDS))
    assert len(records) == 10_570
    training, held = split_records(records, 0.5)
    articles = [{record.group for record in side} for side in (training, held)]
    assert not articles[0] & articles[1] and len(articles[0] | articles[1]) == 48 and min(map(len, articles)) > 10
