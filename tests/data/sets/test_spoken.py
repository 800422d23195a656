"""Spoken words: alike at each making, at the rate of models, no speaker on two sides; and what is missing is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from transformula.data.built_in import built_in_sets
from transformula.data.records import read_records
from transformula.data.sets import spoken
from transformula.data.sets.spoken_sentences import ROWS, said_sentence, vocabulary
from transformula.data.sound import RATE, SoundFile
from transformula.data.splits import split_records
from transformula.errors import DataError, MissingExtra

pytest.importorskip("soundfile", reason="needs soundfile: pip install 'transformula[sound]'")
needs_program = pytest.mark.skipif(
    shutil.which(spoken.PROGRAM) is None, reason=f"needs the program {spoken.PROGRAM}: apt-get install espeak-ng"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@needs_program
@pytest.mark.parametrize(
    ("name", "field"), [("spoken-words", "label"), ("spoken-commands", "text"), ("spoken-sentences", "text")]
)
def test_rows_are_sounds_with_what_is_said(name: str, field: str, cache: Path) -> None:
    rows = list(read_records(f"{name}:12", {"audio": "audio", field: field, "speaker": "speaker"}))
    known = {*spoken.NAMES, *spoken.COMMANDS, *(vocabulary() if name == "spoken-sentences" else ())}
    for row in rows:
        assert set(str(row[field]).split()) <= known and row["speaker"] in spoken.SPEAKERS
        assert row.group == f"{name}, {row['speaker']}"
        sound = row.held("audio")
        assert isinstance(sound, SoundFile) and 0.2 * RATE < len(sound.load()) == sound.samples < 6 * RATE
        assert 0.01 < float(sound.load().abs().max()) <= 1
    assert len({str(row[field]) for row in rows}) > 3 and len({row["speaker"] for row in rows}) > 3
    assert len(list(cache.rglob("*.flac"))) == 12


@needs_program
def test_a_row_is_a_function_of_its_number() -> None:
    once, again, other = (spoken.recorded(*spoken.said(number, 4)) for number in (7, 7, 0))
    assert np.array_equal(once, again) and not np.array_equal(once, other)


@needs_program
def test_every_voice_is_known_to_the_program() -> None:
    """It says nothing of a voice that it does not have, and takes another."""
    import subprocess

    listed = subprocess.run([spoken.PROGRAM, "--voices=variant"], capture_output=True, text=True).stdout
    files = {line.split("!v/")[1].strip() for line in listed.splitlines() if "!v/" in line}
    assert set(spoken.SPEAKERS) <= files


def test_no_speaker_is_on_two_sides() -> None:
    from transformula.data.records import Record

    said = [spoken.said(number, 4)[0] for number in range(300)]
    rows = [Record({"text": each.text}, group=each.speaker) for each in said]
    training, held = split_records(rows, 0.1)
    assert held and not {row.group for row in training} & {row.group for row in held}


def test_neither_a_text_nor_a_speaker_of_the_sentences_is_on_two_sides() -> None:
    from transformula.data.records import Record

    assert len(vocabulary()) == 500 and all(word.isalpha() and word.islower() for word in vocabulary())
    plan = [said_sentence(number)[0] for number in range(ROWS)]
    assert len({each.text for each in plan}) == ROWS and sum(len(each.text.split()) for each in plan) > 7 * ROWS
    assert {word for each in plan for word in each.text.split()} == {*vocabulary()}, "each word is said"
    training, held = split_records([Record({"text": each.text}, group=each.speaker) for each in plan], 0.1)
    assert 300 < len(held) < 700 and not {row.group for row in training} & {row.group for row in held}
    assert not {row["text"] for row in training} & {row["text"] for row in held}


def test_what_is_missing_or_misspelled_is_said(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    with pytest.raises(DataError, match="spoken-words:0: expected a number of rows from 1 to 3,000"):
        list(read_records("spoken-words:0", ["audio"]))
    monkeypatch.setattr(spoken.shutil, "which", lambda name: None)
    with pytest.raises(MissingExtra, match="need the program espeak-ng; install it with: apt-get install espeak-ng"):
        list(read_records("spoken-commands:3", ["audio"]))
    assert built_in_sets.get("spoken-words").kind == "sounds"
