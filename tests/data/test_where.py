"""Which rows are kept: conditions on columns."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformula.data.corpus import read_corpus
from transformula.data.records import read_records
from transformula.data.settings import SourceSettings
from transformula.data.where import OPERATORS, Where
from transformula.errors import ConfigError, DataError

ROW = {"score": 3.5, "int_score": 4, "language": "en", "dump": "2024-10", "good": True, "none": None, "a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("int_score >= 4", True),
        ("int_score>4", False),
        ("score < 3.6 and int_score == 4 and language == en", True),
        ("score < 3.6 and int_score == 4 and language == 'de'", False),
        ('language != "de"', True),
        ("dump >= '2024-01' and dump < 2025-01", True),
        ("good == true", True),
        ("good == false", False),
        ("none == 3", False),
        ("none != 3", False),
        ("a.b <= 1e0", True),
        ("language == 'a and b'", False),
    ],
)
def test_conditions(text: str, kept: bool) -> None:
    assert Where.parse(text).keeps(ROW, "a:1") is kept


@given(st.sampled_from(sorted(OPERATORS)), st.integers(-9, 9), st.integers(-9, 9))
def test_operators_are_those_of_python(symbol: str, left: int, right: int) -> None:
    python = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
              ">=": operator.ge}  # fmt: skip
    assert Where.parse(f"x {symbol} {right}").keeps({"x": left}, "") == python[symbol](left, right)


@given(st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        Where.parse(text)
    except ConfigError as error:
        assert str(error).startswith("where: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing is understood from ''"),
        ("int_score", "nothing is understood from 'int_score' on; expected conditions such as"),
        ("int_score = 3", "'=' is no operator; expected one of: == "),
        ("score >= 3 or score < 1", "expected `and` before 'or score < 1'"),
        ("score >= 3 and", "before 'and'"),
        ("len(text) > 3", "nothing is understood from"),
        ("__import__('os') == 3", "nothing is understood from"),
    ],
)
def test_what_is_not_understood(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        Where.parse(text)
    assert said in str(error.value)
    with pytest.raises(ConfigError, match="where: "):
        SourceSettings.read({"where": text})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scor > 3", "a:1: where: has no column 'scor'; did you mean score"),
        ("a.c > 3", "has no column 'a.c'"),
        ("language > 3", "'language' is text here ('en'), and is compared with a number, 3;"),
        ("score == high", "'score' is a number here ('3.5'), and is compared with text, 'high'"),
        ("a == 3", "'a' is dict here"),
    ],
)
def test_what_cannot_be_compared(text: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        Where.parse(text).keeps(ROW, "a:1")
    assert said in str(error.value)


def test_every_format_with_columns(tmp_path: Path) -> None:
    """Also where the column that is looked at is not one that is asked for."""
    (tmp_path / "a.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "b", "n": 2}\n{"text": "c", "n": null}\n')
    (tmp_path / "a.csv").write_text("text,n\na,1\nb,2\nc,0\n")
    for name in ("a.jsonl", "a.csv"):
        corpus = read_corpus(tmp_path / name, where="n >= 2")
        assert corpus.documents == ["b"] and corpus.unkept == 2
        assert [dict(record) for record in read_records(tmp_path / name, ["text"], where="n >= 2")] == [{"text": "b"}]
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": ["a", "b"], "n": [1, 2]}), tmp_path / "a.parquet")
    assert read_corpus(tmp_path / "a.parquet", column="text", where="n >= 2").documents == ["b"]
    assert [dict(r) for r in read_records(tmp_path / "a.parquet", ["text"], where="n >= 2")] == [{"text": "b"}]


def test_files_without_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(ConfigError, match="where: .txt files have no columns; leave it out"):
        read_corpus(tmp_path / "a.txt", where="n >= 2")


def test_whole_numbers_are_compared_exactly():
    rows = [2**53, 2**53 + 1, str(2**53), str(2**53 + 1), int("9" * 401), 0.5]
    where = Where.parse(f"a == {2**53 + 1}")
    assert [where.keeps({"a": value}, "here") for value in rows] == [False, True, False, True, False, False]
    large = Where.parse(f"a >= {'9' * 401}")
    assert [large.keeps({"a": value}, "here") for value in rows] == [False, False, False, False, True, False]
