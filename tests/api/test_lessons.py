"""The course: every number that a lesson states is printed by a command, or stands on a page whose figures are those of
real runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from transformula.api.editing import answer
from transformula.cli import main

ROOT = Path(__file__).parents[2]
LESSONS: list[dict[str, Any]] = answer({"call": "lessons"})["lessons"]
IDS = [lesson["title"] for lesson in LESSONS]
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
STATED = re.compile(r"-?\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+|\d+ %")  # decimals, thousands and shares: what was measured


def texts(lesson: dict[str, Any]) -> list[str]:
    said = [lesson["mistake"]]
    for step in lesson["steps"]:
        said += [step["say"], step.get("ask", ""), step.get("answer", ""), *step.get("choices", ())]
    return said


def test_there_are_six() -> None:
    assert len(LESSONS) == 6
    assert all(lesson["steps"] and lesson["mistake"] and lesson["facts"] for lesson in LESSONS)


@pytest.mark.parametrize("lesson", LESSONS, ids=IDS)
def test_every_text_of_a_lesson_is_one_that_the_editor_explains(lesson: dict[str, Any]) -> None:
    for step in lesson["steps"]:
        text = step.get("text") or ("entry" in step and answer({"call": "entry", "name": step["entry"]})["text"])
        if text:
            assert "error" not in answer({"call": "explain", "text": text, "numbers": step.get("numbers", {})})


@pytest.mark.parametrize("lesson", LESSONS, ids=IDS)
def test_questions_have_an_answer(lesson: dict[str, Any]) -> None:
    asked = [step for step in lesson["steps"] if "ask" in step]
    assert asked
    for step in asked:
        assert 1 <= step["right"] <= len(step["choices"]) and step["answer"]


@pytest.mark.parametrize("lesson", LESSONS, ids=IDS)
def test_what_the_facts_say_is_printed(lesson: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for fact in lesson["facts"]:
        if "command" in fact:
            assert main(shlex.split(fact["command"])) == 0
            printed = capsys.readouterr().out
        else:
            printed = (ROOT / fact["page"]).read_text("utf-8")
        printed = " ".join(printed.split())
        for part in fact["prints"]:
            assert " ".join(part.split()) in printed, part


@pytest.mark.parametrize("lesson", LESSONS, ids=IDS)
def test_every_number_stands_among_the_facts(lesson: dict[str, Any]) -> None:
    known = " ".join(part for fact in lesson["facts"] for part in fact["prints"])
    known += " " + " ".join(step.get("text", "") for step in lesson["steps"])
    wrong = {choice for step in lesson["steps"] for n, choice in enumerate(step.get("choices", ()), 1)
             if n != step["right"]}  # fmt: skip
    given = "The key of" if lesson["title"] == "Attention by hand" else None  # numbers to multiply, not results
    for text in texts(lesson):
        if text in wrong or (given and given in text):
            continue
        for number in STATED.findall(text):
            assert number in known or derived(number, known), (number, text)


def derived(number: str, known: str) -> bool:
    """81,920 = 871,680 - 789,760: a difference of two that are printed; 95 % is that of every interval."""
    if number == "95 %":
        return True
    values = [int(each.replace(",", "")) for each in re.findall(r"\d{1,3}(?:,\d{3})+", known)]
    return number.replace(",", "").isdigit() and int(number.replace(",", "")) in {a - b for a in values for b in values}
