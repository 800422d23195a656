"""Graphs deeper than any stack of calls: hashed, compared, explained."""

from __future__ import annotations

import pytest

from transformula.analysis.canonical import Steps, canonical, deep, formula_hash, wiring_key
from transformula.inspection.explanation import explanation_of
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.words import vocabulary

NESTED = "words:\n  f0(x): y = mlp(mlp(x))\n" + "".join(f"  f{n}(x): y = f{n - 1}(f{n - 1}(x))\n" for n in range(1, 10))


def read(text: str) -> Architecture:
    return check(read_text("depth: 2\nwidth: 16\nheads: 2\n" + text), vocabulary())


def formula(lines: list[str]) -> str:
    return "layer: |\n" + "".join(f"  {line}\n" for line in lines)


def test_a_function_calls_itself_a_hundred_thousand_times() -> None:
    def count(number: int) -> Steps:
        return 0 if not number else 1 + (yield count(number - 1))

    assert deep(count(100_000)) == 100_000


def test_ten_nested_definitions_have_a_hash() -> None:
    model = read(NESTED + "layer: x = x + f9(x)")
    assert canonical(model).count("mlp@") == 1_024, "equal layers once"
    assert formula_hash(model) != formula_hash(read(NESTED + "layer: x = f9(x) + x"))
    assert wiring_key(model) == wiring_key(read(NESTED + "layer: x = f9(x) + x"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(formula(["x = x + x"] * 400), marks=pytest.mark.slow),
        pytest.param(formula(["x = x * x + x"] * 300), marks=pytest.mark.slow),
        formula(["x = x + mlp(norm(x))"] * 60),
        pytest.param(formula(["x = relu(x) + x"] * 200), marks=pytest.mark.slow),
        formula(["y = attention(x)", *["y = y + y"] * 60, "x = norm(x + y)"]),
        "layer: x = " + " + ".join(["x"] * 1_500),
        "layer: x = " + " * ".join(["x"] * 1_500),
    ],
    ids=["doubled", "squared", "sublayers", "functions", "doubled under a norm", "a long sum", "a long product"],
)
def test_deep_layers_are_explained(text: str) -> None:
    model = read(text)
    page = explanation_of(model, vocabulary())
    assert formula_hash(model)[:12] in repr(page)


def test_a_relative_of_a_doubled_stream_is_known_by_its_wiring() -> None:
    """The wiring key of a sum of more terms than it flattens still takes no notice of their order."""
    one = read(formula(["x = x + x"] * 12 + ["x = x + mlp(x)"]))
    other = read(formula(["x = x + x"] * 12 + ["x = mlp(x) + x"]))
    less = read(formula(["x = x + x"] * 11 + ["x = mlp(x) + x"]))
    assert wiring_key(one) == wiring_key(other) != wiring_key(less)


def test_what_opens_to_too_many_calls_is_refused_at_once() -> None:
    text = NESTED + "".join(f"  f{n}(x): y = f{n - 1}(f{n - 1}(x))\n" for n in range(10, 14)) + "layer: x = x + f13(x)"
    with pytest.raises(FormulaError, match="more than 5,000 calls"):
        read(text)
