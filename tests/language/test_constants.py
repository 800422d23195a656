"""Flags, strings and lists of a model file: one text for a family of models."""

from __future__ import annotations

from typing import Any

import pytest

from transformula.analysis.canonical import formula_hash
from transformula.errors import InputError
from transformula.families.conversion import as_encoder
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.words import vocabulary

FAMILY = """
depth: 4
width: 16
heads: 2
tied: true
bias: false
act: silu
kinds: [local, local, global]
windows: [3, 2 * heads, 0]
acts:
  - relu
  - "gelu"
words:
  norm: x = rmsnorm(x)
  ff(x, gated=False): y = mlp(x, activation=acts[layer], bias=bias) if gated else mlp(x, activation=act)
  near(i, j): m = i - j < 3 or tied
before: x = embed.words(tokens)
layers:
  local: |
    x = x + attention(norm(x), bias=bias, window=windows[layer], rotary=10000)
    x = x + ff(norm(x), gated=tied)
  global: |
    x = x + attention(norm(x), bias=bias, mask=near, rotary=10000)
    x = x + (mlp(norm(x), activation=act) if act == "silu" and not bias else mlp(x))
order: kinds
after: x = norm(x)
output: logits = unembed.words(x) if tied else unembed(x)
"""

WRITTEN_OUT = """
depth: 4
width: 16
heads: 2
words:
  norm: x = rmsnorm(x)
  ff(x, act="relu"): y = mlp(x, activation=act, bias=False) if 1 < 2 else x
  near(i, j): m = i - j < 3 or 1 < 2
before: x = embed.words(tokens)
layers:
  one: x = x + attention(norm(x), bias=False, window=3, rotary=10000); x = x + ff(norm(x))
  two: x = x + attention(norm(x), bias=False, window=4, rotary=10000); x = x + ff(norm(x), act="gelu")
  three: x = x + attention(norm(x), bias=False, mask=near, rotary=10000); x = x + mlp(norm(x), activation="silu")
order: [one, two, three]
after: x = norm(x)
"""


def checked(text: str, **changes: Any) -> Architecture:
    return check(read_text(text), vocabulary(), changes)


def formulas(**changes: Any) -> list[str]:
    return [section.formula for section in checked(FAMILY, **changes).main.layers]


def options(architecture: Architecture, word: str, name: str) -> list[Any]:
    """What each call of a word in the layers has as an option."""
    calls = [value.called for section in architecture.main.layers for value in section.calls()]
    return [call.options[name] for call in calls if call.word.name == word]


def test_a_text_of_constants_is_the_text_with_their_values() -> None:
    """In the fourth layer the lists begin again; `acts`, of two, gave the second there."""
    one, other = checked(FAMILY), checked(WRITTEN_OUT)
    assert options(one, "attention", "window") == [3, 4, 0, 3] == options(other, "attention", "window")
    assert options(one, "mlp", "activation") == ["relu", "gelu", "silu", "gelu"]
    assert formula_hash(checked(FAMILY, depth=3)) == formula_hash(checked(WRITTEN_OUT, depth=3))


@pytest.mark.parametrize(
    "changes", [{"tied": False}, {"tied": "false"}, {"act": "relu"}, {"windows": (2, 0)}, {"acts": ["silu"]}]
)
def test_other_constants_are_another_model_which_its_written_text_keeps(changes: dict[str, Any]) -> None:
    one = checked(FAMILY, **changes)
    text = write_text(one.text)
    assert formula_hash(one) != formula_hash(checked(FAMILY))
    assert formula_hash(checked(text)) == formula_hash(one) and write_text(read_text(text)) == text


def test_a_list_orders_the_formulas() -> None:
    assert formulas() == ["local", "local", "global", "local"]
    assert formulas(kinds=["global", "local"]) == formulas(kinds="[global, local]") == ["global", "local"] * 2


STACKS = """
width: 8
bias: true
encoder:
  causal: false
  bias: false
  before: x = embed.words(source)
  layer: x = x + mlp(norm(x), bias=bias)
decoder:
  before: x = embed.words(tokens)
  layer: x = x + attention(norm(x), memory) + mlp(norm(x), bias=bias)
"""


def test_stacks_have_their_own() -> None:
    architecture = checked(STACKS)
    calls = [v.called for stack in architecture.stacks for v in stack.layers[0].calls()]
    assert [call.options["bias"] for call in calls if call.word.name == "mlp"] == [False, True]
    assert all("bias" not in numbers for numbers in (architecture.numbers, architecture.stacks[0].numbers))


QUOTED = """
local: 500
kinds: ["local", far]
layers:
  local: x = x + attention(x, rotary=local)
  far: x = x + mlp(x)
order: kinds
"""


def test_a_string_with_the_name_of_a_number_stands_in_quotes() -> None:
    one = checked(QUOTED)
    assert [section.formula for section in one.main.layers] == ["local", "far"] * 2
    assert formula_hash(checked(write_text(one.text))) == formula_hash(one)
    with pytest.raises(FormulaError, match="500 is not a formula"):
        checked(QUOTED.replace('"', ""))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tied": 3}, "gated is 3; a flag is wanted"),
        ({"kinds": ["near"]}, "'near' is not a formula"),
        ({"kinds": []}, "a list holds numbers, names and flags"),
        ({"windows": ["wide"]}, "window is a whole number, not 'wide'"),
        ({"windows": 3}, "windows is 3, and no list"),
        ({"bias": "wide"}, "bias is True or False, not 'wide'"),
        ({"act": True}, "True == 'silu' is no test"),
        ({"acts": "[swish]"}, "activation is 'swish', but must be one of"),
        ({"depth": True}, "True"),
        ({"width": "[8]"}, "the list .8.. is not a number"),
        ({"heads": "bias"}, "False, is not a number"),
    ],
)
def test_a_constant_of_another_kind_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(FAMILY, **changes)


@pytest.mark.parametrize(
    ("line", "layer", "message"),
    [
        ("act: silu", "x = x + mlp(x)", "nothing reads the string 'act'"),
        ("tied: true", "x = x + mlp(x)", "nothing reads the flag 'tied'"),
        ("sizes: [1, 2]", "x = x + mlp(x)", "nothing reads the list 'sizes'"),
        ("act: silu", "act = mlp(x); x = x + act", "already a string of the file"),
        ("act: silu", "x = x + act", "this is 'silu'"),
        ("tied: true", "x = (tied + 1) * x", "this is True"),
        ("tied: true", "x = x + mlp(x, hidden=2 ** tied)", "this is True"),
        ("tied: true", "x = x + mlp(x) if tied + 1 > 1 else x", "`tied`, which is True, is not a number"),
        ("sizes: [1, 2]", "x = x + mlp(x, hidden=sizes)", "hidden is a whole number, not the list .1, 2."),
        ("inner: widht", "x = x + mlp(x, hidden=inner)", "not 'widht'; did you mean width[?]"),
        ("sizes: [1, 2]", "x = x + mlp(x, hidden=sizes[0])", r"sizes\[0\] is no place"),
        ("sizes: [1, 2]", "x = x + mix(sizes[:])", "'sizes' has no value"),
    ],
)
def test_what_is_wrong_with_a_constant_is_said(line: str, layer: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        checked(f"{line}\nlayer: {layer}\n")


def test_formulas_over_scores_read_them_and_so_a_family_is_an_encoder_too() -> None:
    text = as_encoder(read_text(FAMILY), vocabulary())
    assert "abs(i - j) < windows[layer]" in write_text(text)
    masks = [options(check(text, vocabulary(), {"windows": [n]}), "attention", "mask")[0] for n in (0, 2)]
    assert masks[0].steps != masks[1].steps
    for wrong in ("windows[i]", "windows", "act", "windows[layer - 1]"):
        with pytest.raises(FormulaError):
            checked(FAMILY.replace("i - j < 3 or tied", f"i - j < {wrong} or tied"), kinds=["global"])


def test_a_test_gives_a_flag() -> None:
    text = 'act: silu\nplain: false\ngated: act == "silu" and not plain\nlayer: x = x + mlp(norm(x), gated=gated)'
    assert options(checked(text), "mlp", "gated") == [True] * 4 == options(checked(text, act="silu"), "mlp", "gated")
    # `plain` counts as read where `act` alone decides
    assert options(checked(text, act="relu"), "mlp", "gated") == options(checked(text, plain=True), "mlp", "gated")
    with pytest.raises(FormulaError, match="is not a number"):
        checked("wide: 2 * (heads < 3)\nlayer: x = x + mlp(norm(x), hidden=wide)")


def test_a_list_is_a_number_of_the_file_where_it_is_indexed() -> None:
    text = (
        "sizes: [32, 64]\nwide: sizes[2] + 1\nlayer: x = x + mlp(norm(x), hidden=wide if layer > 1 else sizes[layer])"
    )
    assert options(checked(text), "mlp", "hidden") == [32, 65, 65, 65]
