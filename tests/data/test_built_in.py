"""Built-in pairs as sources of records; a set from outside."""

import pytest

from transformula.data.built_in import Rows, built_in, built_in_sets
from transformula.data.records import read_records
from transformula.errors import ConfigError, DataError


@pytest.fixture
def squares():
    @built_in("squares", ("source", "target"), grouped=True)
    def read_squares(variant: str) -> Rows:
        numbers = range(int(variant or 12))
        return Rows([(f"tens {n // 10}:{n}", str(n), str(n * n)) for n in numbers], {"negative numbers": 7})

    yield
    del built_in_sets._known["squares"]


def test_a_set_is_one_function(squares):
    records = read_records("squares")
    assert records.name == "squares" and records.notes == []
    rows = list(records)
    assert dict(rows[3]) == {"source": "3", "target": "9"} and rows[3].place == "tens 0:3"
    assert [row.group for row in rows[9:11]] == ["tens 0", "tens 1"]
    assert records.notes == ["squares leaves out 7 negative numbers"] and records.tally.kept == 12
    assert [dict(row) for row in records] == [dict(row) for row in rows]
    assert len(list(read_records("squares:3"))) == 3


def test_with_other_sources_and_under_other_names(squares, tmp_path):
    (tmp_path / "more.tsv").write_text("source\ttarget\na\tb\n")
    rows = list(read_records(["squares:2", str(tmp_path / "more.tsv")]))
    assert [(row["source"], row.group) for row in rows] == [("0", "tens 0"), ("1", "tens 0"), ("a", "")]
    rows = list(read_records(["squares:2", "squares:1"], {"question": "source", "answer": "target"}))
    assert [dict(row) for row in rows] == [{"question": q, "answer": a} for q, a in ("00", "11", "00")]
    with pytest.raises(DataError, match="tens 0:0: has no column 'sauce'; did you mean source"):
        list(read_records("squares", ["sauce"]))


def test_options_that_mean_nothing_are_refused(squares):
    for options in ({"header": True}, {"join": " "}, {"file_format": "tsv"}, {"quoted": False}, {"channels": 1}):
        with pytest.raises(ConfigError, match="no meaning for squares, which is built in"):
            read_records("squares", **options)
    with pytest.raises(ConfigError, match="images: squares has none"):
        read_records("squares", images=["source"])


def test_a_name_that_is_nearly_one():
    with pytest.raises(
        DataError, match=r"did you mean python-summaries or python-docs\?.*built in: cldr-dates:en-de, .*digits"
    ):
        read_records("python-summary")
