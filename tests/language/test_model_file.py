"""Flags, names and characters of model files: what is accepted, and that nothing else is taken silently."""

from __future__ import annotations

import pytest

from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_text import from_formula
from transformula.language.model_writing import write_text

LAYER = "layer: x = x + mlp(norm(x))\n"


@pytest.mark.parametrize(
    ("written", "value"),
    [("true", True), ("True", True), ("yes", True), ("false", False), ("no", False), ("NO", False)],
)
def test_a_flag_is_true_or_false(written: str, value: bool) -> None:
    assert read_text(f"causal: {written}\n{LAYER}").stacks[0].causal == value
    assert from_formula("x = x").override({"causal": written}).stacks[0].causal == value


@pytest.mark.parametrize("written", ["tru", "fals", "1", "on", "''"])
def test_any_other_flag_is_refused(written: str) -> None:
    with pytest.raises(FormulaError, match="write true or false"):
        read_text(f"causal: {written}\n{LAYER}")
    with pytest.raises(FormulaError, match="write true or false"):
        from_formula("x = x").override({"causal": written})


@pytest.mark.parametrize("written", ["²", "١", "9" * 5_000, "1.0", "''", "-1"])
def test_a_language_is_a_plain_whole_number(written: str) -> None:
    with pytest.raises(FormulaError, match="write language: 1"):
        read_text(f"language: {written}\n{LAYER}")


@pytest.mark.parametrize("char", ["\ud800", "\udcff", "\udfff"])
@pytest.mark.parametrize("key", ["name", "after", "init", "dropout"])
def test_half_a_character_is_refused(key: str, char: str) -> None:
    with pytest.raises(FormulaError, match="take it out"):
        from_formula("x = x").override({key: f"a{char}b"})


def test_a_name_has_a_length() -> None:
    with pytest.raises(FormulaError, match="5,000 characters"):
        read_text(f"name: {'a' * 5_000}\n{LAYER}")
    with pytest.raises(FormulaError, match="201 characters"):
        from_formula("x = x").override({"name": "a" * 201})
    model = from_formula("x = x").override({"name": "é" * 200})
    assert read_text(write_text(model)).name == "é" * 200
