"""Rows of preferences: the layouts of the hub, and the trap of each."""

import csv
import json

import pytest

from transformula.data.preferences import read_preferences
from transformula.data.settings import PreferenceColumns
from transformula.data.splits import read_split
from transformula.errors import ConfigError, DataError

ASKED = [{"role": "user", "content": "Hi"}]
SIDES = {"chosen": "Hello", "rejected": "Go"}


def said(text):
    return [{"role": "assistant", "content": text}]


def written(tmp_path, *rows, name="rows.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def read(source, **given):
    notes = []
    return read_preferences(source, PreferenceColumns(data=source, **given), "data", notes), notes


def human(*texts):
    names = ("Human", "Assistant")
    return "".join(f"\n\n{names[number % 2]}: {text}" for number, text in enumerate(texts))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hi", **SIDES},
        {"question": " Hi ", **SIDES},
        {"prompt": ASKED, "chosen": said(" Hello "), "rejected": said("Go")},
        {"prompt": ASKED, **SIDES},
        {"chosen": ASKED + said("Hello"), "rejected": ASKED + said("Go")},
        {"prompt": "Hi", "chosen": ASKED + said("Hello"), "rejected": ASKED + said("Go")},  # which repeat the prompt
        {"chosen": human("Hi", "Hello"), "rejected": human("Hi", "Go")},
        {"prompt": "Hi", "responses": ["Go", "Hello"], "ratings": [1, 5]},
        {"prompt": ASKED, "replies": ["Go", "Fair", "Hello"], "scores": [1, 2, 2.5]},
        {"chosen": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
         "rejected": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Go"}]},
    ],
)  # fmt: skip
def test_layouts(tmp_path, row):
    (pair,), notes = read(written(tmp_path, row))
    assert dict(pair) == {"prompt": ASKED, "chosen": said("Hello"), "rejected": said("Go")} and not notes
    assert pair.group and pair.place.endswith("rows.jsonl:1")


def test_other_files(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["prompt", "chosen", "rejected"], ["Hi", "Hello", "Go"]])
    assert dict(read(str(path))[0][0]) == {"prompt": ASKED, "chosen": said("Hello"), "rejected": said("Go")}
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"chosen": ASKED + said("Hello"), "rejected": ASKED + said("Go")}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert dict(read(str(tmp_path / "rows.parquet"))[0][0])["chosen"] == said("Hello")
    (pair,), _ = read(written(tmp_path, {"q": "Hi", "good": "Hello", "bad": "Go"}), prompt="q", chosen="good",
                      rejected="bad")  # fmt: skip
    assert dict(pair)["rejected"] == said("Go")


def test_the_prompt_is_what_conversations_share(tmp_path):
    talk = [*ASKED, *said("Yes?"), {"role": "user", "content": "A taxi."}]
    row = {"chosen": talk + said("Where?"), "rejected": [*talk, *said("No."), *ASKED, *said("No!")]}
    (pair,), _ = read(written(tmp_path, row))
    assert pair["prompt"] == talk and pair["chosen"] == said("Where?") and len(pair["rejected"]) == 3


def test_rows_that_teach_nothing_are_counted(tmp_path):
    rows = [
        {"prompt": "Hi", **SIDES},
        {"prompt": "Hi", "chosen": " ", "rejected": "Go"},
        {"prompt": "Hi", "chosen": "Hello", "rejected": None},
        {"prompt": "Hi", "chosen": "Go ", "rejected": "Go"},
        {"prompt": " ", **SIDES},
    ]
    pairs, notes = read(written(tmp_path, *rows))
    assert len(pairs) == 1 and notes == [
        "data: 2 pairs are left out: a reply is empty",
        "data: 1 pairs are left out: chosen and rejected are equal",
        "data: 1 pairs are left out: the prompt is empty",
    ]
    other = {"chosen": [{"role": "user", "content": "Ho"}, *said("Hello")], "rejected": ASKED + said("Go")}
    same = {"chosen": ASKED + said("Go"), "rejected": ASKED + said("Go")}
    with pytest.raises(DataError, match=r"none of 2 rows.*different prompts \(1\); chosen and rejected are equal"):
        read(written(tmp_path, other, same))


def test_ratings(tmp_path):
    rows = [{"prompt": "Hi", "reply": text, "rating": n} for text, n in (("a", 1), ("b", 3), ("c", 2), ("d", 3))]
    rows += [{"prompt": "Ho", "reply": text, "rating": 2} for text in "ab"]
    pairs, notes = read(written(tmp_path, *rows))
    assert [(p["chosen"], p["rejected"]) for p in pairs] == [(said("b"), said("a"))]
    assert notes == ["data: 1 prompts are left out: all ratings are equal"]
    pairs, _ = read(written(tmp_path, *rows), pairing="all")
    texts = [(p["chosen"][0]["content"], p["rejected"][0]["content"]) for p in pairs]
    assert sorted(texts) == [("b", "a"), ("b", "c"), ("c", "a"), ("d", "a"), ("d", "c")]
    assert len({pair.group for pair in pairs}) == 1
    with pytest.raises(DataError, match=r"rows.jsonl:1: 2 replies have the ratings \[1.0\]"):
        read(written(tmp_path, {"prompt": "Hi", "replies": ["a", "b"], "ratings": [1]}))
    with pytest.raises(DataError, match=r"rows.jsonl:1: .* ratings \[nan\]"):
        read(written(tmp_path, {"prompt": "Hi", "reply": "a", "rating": "nan"}))


@pytest.mark.parametrize(
    ("row", "error", "said"),
    [
        ({"text": "Hi"}, ConfigError, "chosen: the rows of .* have the columns text; expected chosen and rejected"),
        ({"prompt": "Hi", "chosen": "Hello"}, ConfigError, "rejected: the rows of .* prompt, chosen; expected chosen"),
        ({"chosen": "Hello", "rejected": "Go"}, DataError, "rows.jsonl:1: without a column of prompts.* prompt=NAME"),
        ({"prompt": "Hi", "chosen": ["Hello", "Hi"], "rejected": "Go"}, DataError, "rows.jsonl:1: holds a list of 2"),
        ({"prompt": "Hi", "chosen": [{"role": "user"}], "rejected": "Go"}, DataError, "'chosen', message 1: is"),
    ],
)
def test_what_is_no_pair(tmp_path, row, error, said):
    with pytest.raises(error, match=said):
        read(written(tmp_path, row))


def test_columns_that_contradict(tmp_path):
    rated = [("Hello", 3), ("Go", 1)]
    both = written(tmp_path, *({"prompt": "Hi", **SIDES, "said": text, "stars": stars} for text, stars in rated))
    (pair,), _ = read(both, reply="said", rating="stars")  # those that are named, though chosen and rejected are there
    assert pair["chosen"] == said("Hello") and len(read(both)[0]) == 2
    with pytest.raises(ConfigError, match="reply: chosen says that rows are pairs, and this that they are rated"):
        read(both, reply="said", chosen="chosen")
    with pytest.raises(ConfigError, match="pairing: is of rated replies"):
        read(both, pairing="all")


def test_a_row_without_a_side_is_named(tmp_path):
    with pytest.raises(DataError, match=r"rows.jsonl:2: has no column 'rejected'"):
        read(written(tmp_path, {"prompt": "Hi", **SIDES}, {"prompt": "Hi", "chosen": "Hello"}))


def test_no_prompt_is_on_both_sides_of_a_split(tmp_path):
    rows = [{"prompt": f"Is it {n // 4}?", "chosen": f"Yes {n}", "rejected": "No"} for n in range(80)]
    source = written(tmp_path, *rows)

    def split(**given):
        return read_split(PreferenceColumns(data=source, split=0.3, **given), read_preferences, ("prompt",), ())

    rows_split = split()
    prompts = [{str(row["prompt"]) for row in side} for side in (rows_split.training, rows_split.validation)]
    assert not prompts[0] & prompts[1] and sum(map(len, prompts)) == 20
    other = written(tmp_path, {"prompt": "Is it 3?", "chosen": "Perhaps", "rejected": "No"}, name="held.jsonl")
    with pytest.raises(DataError, match="1 of the 1 rows of the validation rows are also training rows"):
        split(validation=other)
    assert len(split(validation=other, overlap="drop").training) == 76
