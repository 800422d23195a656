"""Texts as a model is given them, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformula.data.records import Record
from transformula.data.spelling import PLAIN, Spelling, in_words, words_of


@pytest.mark.parametrize(
    "name, words",
    [
        ("read_all_lines", "read all lines"),
        ("parseHTTPHeader2", "parse HTTP Header 2"),
        ("__init__", "init"),
        ("größe_ändern", "größe ändern"),
        ("__", ""),
    ],
)
def test_words_of_a_name(name: str, words: str) -> None:
    assert " ".join(words_of(name)) == words


@pytest.mark.parametrize(
    "text, words",
    [
        ("def readAll(self, n=0x1F):", "def read All( self, n=0x1F):"),
        ("    return self._read_all(*args)", "    return self. read all(* args)"),
        ("for _ in x:\n\tpass", "for _ in x:\n\tpass"),
        ("", ""),
    ],
)
def test_a_program_in_words(text: str, words: str) -> None:
    assert in_words(text) == words == in_words(words)


@given(st.text())
def test_twice_in_words_is_once(text: str) -> None:
    assert in_words(in_words(text)) == in_words(text)


@pytest.mark.parametrize(
    "text, first, whole",
    [
        ("Read all Lines.", " read all Lines.", " read all lines."),
        ("A man.", " a man.", " a man."),
        ("HTTP headers", " HTTP headers", " http headers"),
        ("KeyError", " KeyError", " keyerror"),
        ("Ärger", " ärger", " ärger"),
        ("12 men", " 12 men", " 12 men"),
        ("", "", ""),
        ("  Twice", "   Twice", "   twice"),
    ],
)
def test_lower_case_and_back(text: str, first: str, whole: str) -> None:
    some, every = Spelling(lower="first"), Spelling(lower="all")
    assert some.source(text) == some.target(text) == first and some.written(first) == text
    assert every.source(text) == every.target(text) == whole and every.written(whole).lower() == text.lower()


@pytest.mark.parametrize("lower", ["first", "all"])
def test_what_is_written_begins_with_a_capital(lower: Any) -> None:
    assert Spelling(lower=lower).written(" a man") == Spelling(lower=lower).written("a man") == "A man"
    assert Spelling(lower=lower).written("") == ""
    assert Spelling(lower=lower).written(" nasa says no", "NASA sa") == "NASA says no"
    assert Spelling(lower=lower).written(" a man", "an") == "A man"


@given(st.text())
def test_plain_texts_stay(text: str) -> None:
    assert PLAIN.source(text) == PLAIN.target(text) == PLAIN.written(text) == text


def test_sides_of_records() -> None:
    records = [Record({"source": "def readAll(): 1", "target": "Read All."})]
    both = Spelling(split_names=True, lower="first")
    assert both.texts(records, "source") == [" def read All(): 1"]
    assert both.texts(records, "target") == [" read All."]
    assert Spelling(split_names=True, lower="all").texts(records, "source") == [" def read all(): 1"]
    assert Spelling(split_names=True).texts(records, "target") == ["Read All."]
