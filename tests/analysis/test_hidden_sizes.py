"""Hidden sizes that one model has and another has not: found in the text, and written into it."""

from __future__ import annotations

import pytest

from transformula.analysis.accounting import summary
from transformula.analysis.hidden_sizes import changed_hidden_sizes, fitting_hidden_sizes, with_hidden_sizes
from transformula.api.reading import check_model
from transformula.language.graph import Architecture
from transformula.language.model_file import read_text
from transformula.language.model_text import ModelText

BASE = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SWIGLU = "swiglu(x, hidden=4*width): y = linear.down(silu(linear.gate(x, hidden)) * linear.up(x, hidden), width)"


def text_of(layer: str, words: str = "", **numbers: int) -> ModelText:
    more = "".join(f"{key}: {value}\n" for key, value in numbers.items())
    words = f"words:\n  {words}\n" if words else ""
    return read_text(f"language: 1\ndepth: 2\nwidth: 16\nheads: 2\nvocab: 30\n{more}{words}layer: '{layer}'\n")


def checked(text: ModelText) -> Architecture:
    return check_model(text, {}, ())


def parameters(text: ModelText) -> int:
    return summary(checked(text)).totals.parameters


@pytest.mark.parametrize(
    "layer, words, expected",
    [
        (BASE, "", {}),
        ("x = x + attention(norm(x), heads=4); x = x + mlp(norm(x))", "", {}),
        ("x = x + attention(norm(x)); x = x + mlp(norm(x), gated=True)", "", {"mlp(norm(x), gated=True)": 64}),
        ("x = x + mlp(norm(x)); x = x + mlp(norm(x), hidden=32)", "", {"mlp(norm(x), hidden=32)": 32}),
        ("x = x + mlp(norm(x), hidden=8*layer)", "", {}),
        ("x = x + swiglu(norm(x))", SWIGLU, {"swiglu(norm(x))": 64}),
        ("x = x + ffn(x)", "ffn: y = mlp(norm(x), gated=True)", {"mlp(norm(x), gated=True)": 64}),
    ],
)
def test_what_the_base_has_not_is_found(layer: str, words: str, expected: dict[str, int]) -> None:
    model = checked(text_of(layer, words))
    found = changed_hidden_sizes(model, checked(text_of(BASE)))
    assert {place.text: size for place, size in found.items()} == expected
    changed = checked(with_hidden_sizes(model.text, dict.fromkeys(found, 10))) if found else model
    again = changed_hidden_sizes(changed, checked(text_of(BASE)))
    assert [*again.values()] == [10] * len(expected)


def test_all_of_a_text_but_the_sizes_stays() -> None:
    layer = "x = x + mlp(norm(x), gated=True) + mlp(norm(x), gated=True); x = x + mlp(norm(x))"
    model = checked(text_of(layer))
    first, second = changed_hidden_sizes(model, checked(text_of(BASE)))
    text = with_hidden_sizes(model.text, {first: 9, second: 10})
    written = text.stacks[0].layers["layer"].text
    assert written.replace(", hidden=9", "").replace(", hidden=10", "") == layer
    assert written.index("hidden=9") < written.index("hidden=10")


def test_a_number_that_calls_read_is_changed_in_their_place() -> None:
    model = checked(text_of("x = x + mlp(norm(x), hidden=hidden, gated=True)", hidden=40))
    text = with_hidden_sizes(model.text, changed_hidden_sizes(model, checked(text_of(BASE))) | {})
    assert text.numbers["hidden"].text == "40"
    (place,) = changed_hidden_sizes(model, checked(text_of(BASE)))
    assert with_hidden_sizes(model.text, {place: 10}).numbers["hidden"].text == "10"


@pytest.mark.parametrize("share", [0.5, 0.8, 1.3, 2.0])
def test_sizes_are_found_for_a_number_of_parameters(share: float) -> None:
    model = checked(text_of("x = x + swiglu(norm(x)) + ffn(x)", f"{SWIGLU}\n  ffn: y = mlp(norm(x), gated=True)"))
    sizes = changed_hidden_sizes(model, checked(text_of(BASE)))
    wanted = round(share * parameters(model.text))
    new = fitting_hidden_sizes(model.text, sizes, parameters, wanted, 0.01)
    assert new is not None and parameters(with_hidden_sizes(model.text, new)) == pytest.approx(wanted, rel=0.01)
    assert len({round(new[place] / size, 1) for place, size in sizes.items()}) == 1


def test_no_sizes_are_found_where_none_can_do_it() -> None:
    model = checked(text_of("x = x + attention(norm(x)); x = x + mlp(norm(x), gated=True)"))
    sizes = changed_hidden_sizes(model, checked(text_of(BASE)))
    assert fitting_hidden_sizes(model.text, sizes, parameters, 10, 0.01) is None
    assert fitting_hidden_sizes(model.text, {}, parameters, 5000, 0.01) is None
