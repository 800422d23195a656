"""What is said of a word: all of its record, with an example that works."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.language.toy import TOY
from transformula.analysis.word_reference import (
    TITLES,
    UnknownWord,
    by_kind,
    calls,
    command,
    data_of,
    default_words,
    find,
    index_text,
    parts_of,
    quoted,
    type_words,
    word_text,
)
from transformula.cli import main
from transformula.language.vocabulary import KINDS, WordRecord
from transformula.words import vocabulary

WORDS = list(vocabulary().values())


@pytest.mark.parametrize("record", WORDS, ids=lambda record: record.name)
def test_the_record_says_all(record: WordRecord) -> None:
    """No option without its meaning; every parameter in the docstring, with shape and initial value; an equation."""
    assert record.equation and record.doc
    assert all(option.help.strip() for option in record.options.values())
    if record.parameters and record.name not in ("norm",):
        named = [name.split(".")[0] for name in record.parameters]
        assert [name for name in named if re.search(rf"\b{name}\b", record.doc)] == named


@pytest.mark.parametrize("record", WORDS, ids=lambda record: record.name)
def test_its_example_works_as_typed(record: WordRecord, capsys: pytest.CaptureFixture[str]) -> None:
    typed = command(record)
    program, *arguments = shlex.split(typed)
    assert program == "transformula" and main([*arguments, "--ascii"]) == 0, capsys.readouterr().err
    assert re.search(rf"\b{record.name}(\.\w+)?\(", typed), "it calls the word"


@pytest.mark.parametrize("record", WORDS, ids=lambda record: record.name)
def test_its_page_has_every_fact(record: WordRecord, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["words", record.name]) == 0
    page = capsys.readouterr().out
    flat = " ".join(page.split())
    for option in record.options.values():
        for fact in (option.name, type_words(option), default_words(option), option.help):
            assert " ".join(fact.split()) in flat or all(part in flat for part in fact.split()), fact
    for fact in [*calls(record), *record.ports, *record.taps, *record.parameters, record.equation, record.source]:
        assert " ".join(fact.split()) in flat, fact
    assert command(record) in page


def test_every_kind_has_a_heading_and_every_word_its_place() -> None:
    assert set(TITLES) == set(KINDS)
    assert sorted(r.name for records in by_kind(vocabulary()).values() for r in records) == sorted(vocabulary())
    shown = index_text(vocabulary())
    assert all(re.search(rf"^  {name} ", shown, flags=re.MULTILINE) for name in vocabulary())


def test_calls_show_streams_and_numbers() -> None:
    known = vocabulary()
    assert calls(known["attention"]) == ["attention(x)", "attention(x, memory)", "attention(q, k, v)"]
    assert calls(known["linear"]) == ["linear(x, size)"] and calls(known["vector"]) == ["vector(init, size=width)"]
    assert calls(known["mix"]) == ["mix(entries, ...)"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["words", "mlp", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == data_of(vocabulary()["mlp"])
    assert found["options"]["gated"]["shapes_weights"] and found["options"]["hidden"]["default"] == "4 * x"
    assert found["options"]["activation"]["choices"][0] == "gelu"
    assert main(["words", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {word["name"] for words in listed.values() for word in words} == set(vocabulary())


def test_an_unknown_word_names_the_nearest_by_the_field_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownWord, match="did you mean attention") as caught:
        find(vocabulary(), "attenion")
    assert caught.value.near[0] == "attention"
    with pytest.raises(UnknownWord) as caught:
        find(vocabulary(), "rope")
    assert caught.value.near == ["attention"] and "rotary=10000" in str(caught.value)
    assert main(["words", "GEGLU"]) == 2
    assert 'activation="gelu"' in capsys.readouterr().err


def test_a_word_from_outside(capsys: pytest.CaptureFixture[str], tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, not run; without an example or a help there is none to show."""
    (tmp_path / "words_reference_outside.py").write_text(
        "raise SystemExit('was run')\n"
        "@word('zigzag', streams=('x',), kind='function', width='x', options={'n': {'type': 'whole', 'default': 2}},\n"
        "      equation='y = zigzag x')\n"
        "class ZigZag:\n    '''Back and forth.'''\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["words", "zigzag", "--use", "words_reference_outside"]) == 0
    shown = capsys.readouterr().out
    assert "y = zigzag x" in shown and "Back and forth." in shown and "example" not in shown
    assert main(["words", "zigzag"]) == 2


def test_the_example_of_a_word_from_outside_says_its_package(
    capsys: pytest.CaptureFixture[str], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "words_with_example.py").write_text(
        "@word('wobble', streams=('x',), kind='function', width='x', example='x = x + wobble(mlp(norm(x)))')\n"
        "class Wobble:\n    'Wobbles.'\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["words", "wobble", "--use", "words_with_example", "--json"]) == 0
    program, *typed = shlex.split(json.loads(capsys.readouterr().out)["example"])
    assert typed[-2:] == ["--use", "words_with_example"] and main(typed) == 0


def test_a_toy_vocabulary_is_shown_too() -> None:
    for record in TOY.values():
        assert record.name in word_text(record)


def test_examples_are_quoted_for_a_shell() -> None:
    assert parts_of("before: x = embed(tokens)")["layer"] and parts_of("x = x")["layer"] == "x = x"
    for text in ('x = mlp(x, activation="silu")', "x = norm(x)", "false", "it's", "a \"b\" 'c'"):
        assert shlex.split(quoted(text)) == [text]
