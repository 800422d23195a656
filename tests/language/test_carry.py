"""`carry` in a model's text: a whole number over the file's numbers; explain says what it means."""

from __future__ import annotations

from typing import Any

import pytest

from transformula.analysis.analysis import analyze
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.words import vocabulary

TEXT = "memory: 40\nlayer: x = x + attention(norm(x), rotary=100)\ncarry: {}\n"


def read(value: Any) -> Architecture:
    return check(read_text(TEXT.format(value)), vocabulary())


def test_the_number_is_one_of_the_file() -> None:
    found = read("3 * memory // 2")
    assert found.carry == 60
    assert check(read_text(write_text(found.text)), vocabulary()).carry == 60
    assert check(found.text, vocabulary(), {"carry": "memory - 2", "memory": 9}).carry == 7
    assert check(read_text("layer: x = x + mlp(x)"), vocabulary()).carry == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("memory - memory", "carry: is 0, but must be a whole number from 1 to 1,000,000"),
        ("memory / 3", "carry: is 13.3333, but must be a whole number"),
        ("-memory", "carry: is -40"),
        ("1e7 + memory", "carry: is 1e[+]07"),
        ("memory > 3", "carry|not a number"),
        ("{memory: 2}", "is a mapping.*write carry: 150"),
        ("memori", "no number is called 'memori'; did you mean memory"),
        ("memory +", "is not an expression"),
    ],
)
def test_what_is_no_such_number(value: str, message: str) -> None:
    with pytest.raises(FormulaError, match=f"(?s){message}"):
        read(value)


def test_explain_says_what_a_segment_sees() -> None:
    analysis = analyze(read("memory"))
    assert "segments         each sees the last 40 positions before it, through which no gradient flows" in repr(
        analysis
    )
    assert analysis.data["stacks"][0]["carry"] == 40
    without = analyze(check(read_text("layer: x = x + mlp(norm(x))"), vocabulary()))
    assert "segments" not in repr(without) and without.data["stacks"][0]["carry"] == 0
