"""Every mistake of the table: its example causes it and no other, the place is underlined, and there is a remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from transformula.language import messages
from transformula.language.check import check
from transformula.language.messages import MESSAGES, FormulaError, Message
from transformula.language.model_file import read_text
from transformula.language.model_text import from_formula
from transformula.words import vocabulary

WHOLE_FILE = {"too-many-calls", "too-many-operations", "no-layer"}
"""Mistakes of the file as a whole, which have no place."""


def cause(message: Message) -> FormulaError:
    """The error that the example causes: a whole file if a line of it starts with a key, else a formula."""
    with pytest.raises(FormulaError) as raised:
        whole = re.search(r"^\w+:", message.example, flags=re.MULTILINE)
        check(read_text(message.example, file="model.yaml") if whole else from_formula(message.example), vocabulary())
    return raised.value


@pytest.mark.parametrize("code", MESSAGES)
def test_example_causes_exactly_this(code: str) -> None:
    error = cause(MESSAGES[code])
    assert error.code == code, str(error)
    assert error.exit_status == 2


@pytest.mark.parametrize("code", MESSAGES)
def test_place_and_remedy(code: str) -> None:
    error = cause(MESSAGES[code])
    assert error.remedy.strip(), "it says what to do"
    assert error.what and "{" not in error.what, "every name is filled in"
    if code in WHOLE_FILE:
        return
    assert error.place is not None, str(error)
    rows = str(error).splitlines()
    assert rows[0].startswith(error.place.where)
    carets = [row for row in rows if row.strip() and set(row.strip()) == {"^"}]
    assert len(carets) == 1, str(error)
    underlined = rows[rows.index(carets[0]) - 1]
    assert len(underlined) >= carets[0].rindex("^"), "the place lies in the line"


@pytest.mark.parametrize("code", MESSAGES)
def test_text_is_plain(code: str) -> None:
    """No name of Python's own, no trailing signs, no line of more than twenty of a terminal's: all words are listed."""
    text = str(cause(MESSAGES[code]))
    for word in ("None", "<transformula", "object at", "Value(", "  known", ";;", " ;"):
        assert word not in text, text
    assert all(len(row) <= 20 * 80 for row in text.splitlines())


def test_the_nearest_names_are_data() -> None:
    error = cause(MESSAGES["unknown-word"])
    assert error.near and error.near[0] == "attention"
    assert "did you mean attention" in str(error)


def test_examples_are_short_and_differ() -> None:
    examples = [message.example for message in MESSAGES.values()]
    assert len(set(examples)) == len(examples)


def test_rows_are_all_raised_somewhere() -> None:
    """No row is left that no code raises."""
    folder = Path(messages.__file__).parent
    text = "".join(p.read_text(encoding="utf-8") for p in folder.glob("*.py") if p.name != "messages.py")
    unraised = [code for code in MESSAGES if f'"{code}"' not in text]
    assert not unraised
