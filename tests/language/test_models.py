"""Whole models and wirings of the field, written in the language: each is read, checked, written and read again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from transformula.analysis.canonical import canonical, formula_hash, wiring_key
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_text import ModelText
from transformula.language.model_writing import write_text
from transformula.language.vocabulary import Vocabulary, record_from
from transformula.words import vocabulary

DOCUMENTS = re.split(r"(?m)^--- ?.*\n", Path(__file__).with_name("models.yaml").read_text(encoding="utf-8"))[1:]
NUMBER = {"type": "number", "default": 1}
OUTSIDE = {"keep": NUMBER, "tile": NUMBER, "shift": NUMBER, "n": NUMBER}
WIDTHS = {"merge": "2 * x", "top": "1"}


def read(document: str) -> tuple[ModelText, Vocabulary]:
    """A model and the vocabulary it needs; `extra` lists words that come from outside, with their reach."""
    words = vocabulary()
    found = re.search(r"(?m)^extra: (.*)\n", document)
    if found:
        records = []
        for name, reach in yaml.safe_load(found.group(1)).items():
            kind = "positions" if reach == "all" else "chance"
            stated = {"streams": ("x",), "kind": kind, "reach": reach, "options": OUTSIDE, "numbers": ("n",)}
            records.append(record_from(name, {**stated, "width": WIDTHS.get(name, "x")}, "outside"))
        words = words.with_words(records)
    return read_text(document), words


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: read_text(d).name)
def test_models_are_checked_and_written(document: str) -> None:
    text, words = read(document)
    architecture = check(text, words)
    again = read_text(write_text(text))
    assert write_text(again) == write_text(text)
    same = check(again, words)
    assert canonical(same) == canonical(architecture)
    assert formula_hash(same) == formula_hash(architecture) and wiring_key(same) == wiring_key(architecture)
    for section in architecture.sections():
        for value in section.calls():
            assert value.call is not None and value.call.path and value.call.role


def test_all_models_of_the_page_are_here() -> None:
    assert len(DOCUMENTS) == 59


def test_one_path_is_one_module() -> None:
    """Calls on one path are one word, or two faces of one table."""
    for document in DOCUMENTS:
        text, words = read(document)
        seen: dict[str, tuple[str, str]] = {}
        for section in check(text, words).sections():
            for value in section.calls():
                assert value.call is not None
                word = value.call.word
                first = seen.setdefault(value.call.path, (word.name, word.family))
                assert first[0] == word.name or (word.family and first[1] == word.family), (text.name, value.call.path)
