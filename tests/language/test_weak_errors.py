"""What people of the field type first: each error says what is written here."""

from __future__ import annotations

import pytest

from transformula import explain
from transformula.language.messages import FormulaError


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ('x = x + mlp(norm(x), activation="swiglu")', 'write gated=True, activation="silu"'),
        ('x = x + mlp(norm(x), activation="gelu_new")', 'write activation="gelu_tanh"'),
        ('x = x + mlp(norm(x), activation="relu2")', "linear.down(relu(linear.up(norm(x), 4 * width)) ** 2, width)"),
        ('x = x + mlp(norm(x), activation="many")', "activation function"),
        ("h = norm(x); x = x + linear(h[0:32], width)", "the channels of a value: slice(x, first, size)"),
        ("x = x + attention(norm(x), rotary=10000, rope_scaling=4)", "rates=4"),
        ("x = x + attention(norm)", "it is a word: call it, as in norm(x)"),
        ("x = x + attention", "it is a word: call it, as in attention(x)"),
        ('x = x + attention(norm(x), score="alibi")', "name it without quotes: score=alibi; how it is defined"),
        ("x = x + x[3]", "here there is x[0] alone; x[n] is what layer n left"),
        ("x = x + x[5] if layer == 3 else x", "here there is x[0] to x[2]"),
        ("x = x + alpha * attention(norm(x))", "one that is learned: scalar.alpha(1)"),
    ],
)
def test_what_is_written_instead(formula: str, said: str) -> None:
    with pytest.raises(FormulaError) as caught:
        explain(formula, depth=4)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        'x = x + mlp(norm(x), gated=True, activation="silu")', 'x = x + mlp(norm(x), activation="gelu_tanh")',
        "x = x + linear.down(relu(linear.up(norm(x), 4 * width)) ** 2, width)",
        "x = x + scalar.alpha(1) * attention(norm(x))", "x = x + linear(slice(norm(x), 1, 2), width)",
    ],
)  # fmt: skip
def test_it_works(written: str) -> None:
    assert explain(written, depth=2).data["totals"]["parameters"]


@pytest.mark.parametrize(("key", "call"), [("hidden", "mlp"), ("window", "attention"), ("wide", "")])
def test_a_number_with_the_name_of_an_option(key: str, call: str) -> None:
    """The number is not what the option is: the call says it."""
    remedy = f"give it to the call that has such an option: {call}(..., {key}={key})" if call else "use it in a formula"
    with pytest.raises(FormulaError) as caught:
        explain(f"language: 1\n{key}: 8\nlayer: x = x + attention(norm(x)) + mlp(norm(x))\n")
    assert f"take it out, or {remedy}" in str(caught.value)


def test_a_number_in_words() -> None:
    with pytest.raises(FormulaError, match="no number is called 'two'.*\n.*\n.*\n.*or write a number, as in depth=4"):
        explain("x = x + mlp(norm(x))", depth="two")
