"""A table whose first row names its columns beside one whose first row does not; columns that are read as one text."""

from pathlib import Path

import pytest

from transformula.data.records import read_records
from transformula.errors import DataError

NEWS = Path(__file__).parents[2].parent / "shared" / "data" / "ag_news"


@pytest.fixture
def news(tmp_path):
    (tmp_path / "train.csv").write_text(
        'class_index,title,description\n1,Blast,"A ""big"" one"\n3,Oil,Up #39;s &lt;b>\n'
    )
    (tmp_path / "test.csv").write_text('"3","Fears","Unions\\say"\n"4","Race, on","SPACE"\n')
    return tmp_path


def rows(source, fields, **options) -> list[dict]:
    return [dict(record) for record in read_records(str(source), fields, **options)]


def test_names_of_the_training_table_go_for_one_without(news):
    fields = {"text": "description", "label": "class_index"}
    assert rows(news / "train.csv", fields, like=str(news / "train.csv"))[0] == {"text": 'A "big" one', "label": "1"}
    test = read_records(str(news / "test.csv"), fields, like=str(news / "train.csv"))
    assert [dict(row) for row in test] == [{"text": "Unions\\say", "label": "3"}, {"text": "SPACE", "label": "4"}]
    assert test.notes == [f"{news}/test.csv: its first row names no columns; they are called as in {news}/train.csv"]
    for like in (None, str(news / "gone.csv")):
        with pytest.raises(DataError, match="test.csv:2: has no column 'description'.*the row: .*SPACE"):
            rows(news / "test.csv", fields, like=like)


def test_columns_by_number(news):
    assert rows(news / "test.csv", {"label": 1})[1] == {"label": "4"}
    train = read_records(str(news / "train.csv"), {"text": 3, "label": "1"})
    assert next(iter(train))["label"] == "class_index"
    assert "read as a row, as columns are named by number, and looks like their names: class_index" in train.notes[0]
    with pytest.raises(DataError, match=r"test.csv:1: has no column number 5; it has 3: 1, 2, 3; the row: .*Fears"):
        rows(news / "test.csv", {"text": 5})


def test_several_columns_are_one_text(news):
    assert rows(news / "train.csv", {"text": "title + description"})[1] == {"text": "Oil Up #39;s &lt;b>"}
    assert rows(news / "test.csv", {"text": "2+3", "label": 1})[1] == {"text": "Race, on SPACE", "label": "4"}
    both = rows(news / "test.csv", {"text": "title + description"}, like=str(news / "train.csv"))
    assert both[0] == {"text": "Fears Unions\\say"}
    (news / "a.tsv").write_text("grade A+\tb+c\nx\ty\n")
    assert rows(news / "a.tsv", {"p": "grade A+", "q": "b+c"}) == [{"p": "x", "q": "y"}]
    with pytest.raises(DataError, match=r"train.csv:2: has no column 'titel'; did you mean title"):
        rows(news / "train.csv", {"text": "titel+description"})


@pytest.mark.skipif(not NEWS.is_dir(), reason=f"the data beside the project is not here: {NEWS}")
def test_news():
    fields = {"text": "title + description", "label": "class_index"}
    labels = [row["label"] for row in rows(NEWS / "test.csv", fields, like=str(NEWS / "train_20k.csv"))]
    assert {label: labels.count(label) for label in sorted(set(labels))} == dict.fromkeys("1234", 1900)
